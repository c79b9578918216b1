-- Wireshark: cyclic frames as Frameward protects them, and the HELLOs of their relations. See README.md for how to
-- install it.
--
--   FrameID 2 | KeyID 1 | Seq 4 | payload | ICV 16
--   FrameID 2 | KeyID 1 | 0 4   | State 1 | nonce 16 | peer's nonce 16 | MAC 32
--
-- Whether a payload is encrypted is said in HELLOs alone. Nothing here checks an ICV or a MAC.

-- IEEE 802's first EtherType for local experiments; what `ethertype` in [[fieldbus]] says, if it says anything.
local ETHERTYPE = 0x88b5
local HEADER, HELLO, ICV = 7, 72, 16

local fieldbus = Proto("fieldbus", "Cyclic frame, protected by Frameward")

local f = {
    frame_id = ProtoField.uint16("fieldbus.frame_id", "FrameID", base.HEX),
    key_id = ProtoField.uint8("fieldbus.key_id", "KeyID", base.DEC),
    seq = ProtoField.uint32("fieldbus.seq", "Seq: 0 is a HELLO", base.DEC),
    payload = ProtoField.bytes("fieldbus.payload", "Payload"),
    icv = ProtoField.bytes("fieldbus.icv", "ICV"),
    state = ProtoField.uint8("fieldbus.hello.state", "State", base.HEX),
    entered = ProtoField.bool("fieldbus.hello.entered", "The sender has entered the session of these nonces", 8, nil, 0x01),
    encrypts = ProtoField.bool("fieldbus.hello.encrypts", "Payloads are encrypted", 8, nil, 0x02),
    longer = ProtoField.bool("fieldbus.hello.bits256", "Keys have 256 bits", 8, nil, 0x04),
    chacha20 = ProtoField.bool("fieldbus.hello.chacha20_poly1305", "The suite is ChaCha20-Poly1305", 8, nil, 0x08),
    reserved = ProtoField.uint8("fieldbus.hello.reserved", "Reserved", base.HEX, nil, 0xf0),
    own = ProtoField.bytes("fieldbus.hello.nonce", "Nonce of the sender"),
    peers = ProtoField.bytes("fieldbus.hello.peers_nonce", "Nonce of the receiver; zeros if the sender does not know it"),
    mac = ProtoField.bytes("fieldbus.hello.mac", "MAC"),
    padding = ProtoField.bytes("fieldbus.padding", "Padding"),
}
fieldbus.fields = f

local function malformed(name, text)
    return ProtoExpert.new("fieldbus.malformed." .. name, text, expert.group.MALFORMED, expert.severity.ERROR)
end

local x = {
    truncated = malformed("truncated", "The frame ends before KeyID, Seq and ICV, or the HELLO, are whole"),
    reserved = malformed("reserved", "A reserved bit of the State is set"),
}
fieldbus.experts = x

local function hello(tvb, tree)
    local octet = tvb(HEADER, 1)
    local state = tree:add(f.state, octet)
    for _, field in ipairs({ f.entered, f.encrypts, f.longer, f.chacha20, f.reserved }) do state:add(field, octet) end
    if octet:bitfield(0, 4) ~= 0 or octet:bitfield(4, 2) == 3 then state:add_proto_expert_info(x.reserved) end
    tree:add(f.own, tvb(8, 16))
    tree:add(f.peers, tvb(24, 16))
    tree:add(f.mac, tvb(40, 32))
    if tvb:captured_len() > HELLO then tree:add(f.padding, tvb(HELLO)) end
    local knows = tvb(24, 16):bytes():tohex():find("[^0]") ~= nil
    return octet:bitfield(7, 1) == 1 and "has entered" or knows and "asks" or "asks who is there"
end

function fieldbus.dissector(tvb, pinfo, root)
    local octets = tvb:captured_len()
    local tree = root:add(fieldbus, tvb())
    pinfo.cols.protocol = "FIELDBUS"
    if octets < HEADER then
        tree:add_proto_expert_info(x.truncated)
        return octets
    end
    tree:add(f.frame_id, tvb(0, 2))
    tree:add(f.key_id, tvb(2, 1))
    tree:add(f.seq, tvb(3, 4))
    local frame_id, key_id, seq = tvb(0, 2):uint(), tvb(2, 1):uint(), tvb(3, 4):uint()
    local least = seq == 0 and HELLO or HEADER + ICV
    if octets < least or octets < tvb:reported_len() then
        tree:add_proto_expert_info(x.truncated)
        return octets
    end
    if seq == 0 then
        pinfo.cols.info = string.format("HELLO, FrameID 0x%04x, KeyID %d, %s", frame_id, key_id, hello(tvb, tree))
    else
        if octets > least then tree:add(f.payload, tvb(HEADER, octets - least)) end
        tree:add(f.icv, tvb(octets - ICV, ICV))
        pinfo.cols.info = string.format("FrameID 0x%04x, KeyID %d, Seq %u", frame_id, key_id, seq)
    end
    return octets
end

DissectorTable.get("ethertype"):add(ETHERTYPE, fieldbus)
