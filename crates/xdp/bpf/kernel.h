// The little of the kernel's interface that the programs need (include/uapi/linux/bpf.h). Nothing else is included, so what
// the compiler makes of them depends on the compiler alone. No CO-RE: no structure of the kernel's own is read.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// Both names are looked for by the kernel.
struct xdp_md {
    u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};
struct bpf_spin_lock {
    u32 value;
};

enum { XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX, XDP_REDIRECT };
enum { HASH = 1, ARRAY = 2, PERCPU_ARRAY = 6, DEVMAP = 14, XSKMAP = 17, RINGBUF = 27 };
// BPF_F_MMAPABLE: user space may have the values in its memory. BPF_RB_FORCE_WAKEUP.
#define MAPPED 1024
#define WAKE 2

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static u64 (*const ktime_get_ns)(void) = (void *)5;
static long (*const adjust_head)(struct xdp_md *ctx, int delta) = (void *)44;
static long (*const redirect_map)(void *map, u64 key, u64 flags) = (void *)51;
static long (*const adjust_tail)(struct xdp_md *ctx, int delta) = (void *)65;
static long (*const spin_lock)(struct bpf_spin_lock *lock) = (void *)93;
static long (*const ringbuf_output)(void *map, const void *data, u64 octets, u64 flags) = (void *)130;
static long (*const spin_unlock)(struct bpf_spin_lock *lock) = (void *)94;

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
// A function of its own, which the verifier judges once, whatever it is called with, and which has a stack frame of its own.
#define GLOBAL __attribute__((noinline))
#define UNROLLED _Pragma("clang loop unroll(full)")
#define EACH_ONE_BY_ONE _Pragma("clang loop unroll(disable)")

// A map's definition as BTF: numbers are lengths of arrays, types are those that pointers point at.
#define NUMBER(name, value) int(*name)[value]
#define TYPE(name, of) of *name
#define MAP(kind, of_key, of_value, entries) \
    struct {                                 \
        NUMBER(type, kind);                  \
        NUMBER(max_entries, entries);        \
        TYPE(key, of_key);                   \
        TYPE(value, of_value);               \
    }

#define MAPPED_MAP(of_value, entries)  \
    struct {                          \
        NUMBER(type, ARRAY);          \
        NUMBER(max_entries, entries); \
        NUMBER(map_flags, MAPPED);    \
        TYPE(key, u32);               \
        TYPE(value, of_value);        \
    }

// Octets of a frame: wherever they lie, they are read and written whole. Processors that cannot do that the verifier refuses.
#define U16(octets) (*(u16 *)(octets))
#define U32(octets) (*(u32 *)(octets))
#define U64(octets) (*(u64 *)(octets))

// Time from `then` to `now`. Another CPU's reading may be the later one.
INLINE u64 time_since(u64 then, u64 now) { return now > then ? now - then : 0; }

INLINE u8 *start_of(struct xdp_md *ctx) { return (u8 *)(long)ctx->data; }
INLINE u8 *end_of(struct xdp_md *ctx) { return (u8 *)(long)ctx->data_end; }

INLINE u32 octets_of(struct xdp_md *ctx) {
    u64 octets = end_of(ctx) - start_of(ctx);
    // Else it would be made of the halves of pointers, which the verifier refuses.
    asm volatile("" : "+r"(octets));
    return octets;
}

// "value & mask" that the compiler cannot prove needless and leave out: the verifier does not know what the compiler knows.
#define BOUND(value, mask) asm volatile("%0 &= %1" : "+r"(value) : "i"(mask))

#define BE16(value) __builtin_bswap16(value)
#define BE32(value) __builtin_bswap32(value)
