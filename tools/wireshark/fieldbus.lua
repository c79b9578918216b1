-- Wireshark: cyclic frames as Frameward protects them, and the HELLOs of their relations. See README.md for how to
-- install it.
--
--   FrameID 2 | KeyID 1 | Seq 4 | payload | ICV 16
--   FrameID 2 | KeyID 1 | 0 4   | State 1 | nonce 16 | peer's nonce 16 | [other key 8] | MAC 32
--
-- Whether a payload is encrypted is said in HELLOs alone. Nothing here checks an ICV or a MAC.
--
-- Frames of other fieldbuses than PROFINET have their identification in the place of the FrameID: the APPID, the message type and node, a
-- port. No frame shows its protocol. Identification and destination leave one or a few of them, and these are named.

-- IEEE 802's first EtherType for local experiments; what `ethertype` in [[fieldbus]] says, if it says anything.
local ETHERTYPE = 0x88b5
local HEADER, HELLO, OTHER_KEY, ICV = 7, 72, 8, 16

local fieldbus = Proto("fieldbus", "Cyclic frame, protected by Frameward")

local f = {
    frame_id = ProtoField.uint16("fieldbus.frame_id", "FrameID", base.HEX),
    protocol = ProtoField.string("fieldbus.protocol", "Fieldbus, as FrameID and destination allow"),
    relation = ProtoField.string("fieldbus.relation", "Relation, as the gateways know it"),
    key_id = ProtoField.uint8("fieldbus.key_id", "KeyID", base.DEC),
    seq = ProtoField.uint32("fieldbus.seq", "Seq: 0 is a HELLO", base.DEC),
    payload = ProtoField.bytes("fieldbus.payload", "Payload"),
    icv = ProtoField.bytes("fieldbus.icv", "ICV"),
    state = ProtoField.uint8("fieldbus.hello.state", "State", base.HEX),
    entered = ProtoField.bool("fieldbus.hello.entered", "The sender has entered the session of these nonces", 8, nil, 0x01),
    encrypts = ProtoField.bool("fieldbus.hello.encrypts", "Payloads are encrypted", 8, nil, 0x02),
    longer = ProtoField.bool("fieldbus.hello.bits256", "Keys have 256 bits", 8, nil, 0x04),
    chacha20 = ProtoField.bool("fieldbus.hello.chacha20_poly1305", "The suite is ChaCha20-Poly1305", 8, nil, 0x08),
    has_other = ProtoField.bool("fieldbus.hello.other_key", "The sender has another master key too", 8, nil, 0x10),
    prefers = ProtoField.bool("fieldbus.hello.prefers_other_key", "The sender prefers that one", 8, nil, 0x20),
    reserved = ProtoField.uint8("fieldbus.hello.reserved", "Reserved", base.HEX, nil, 0xc0),
    own = ProtoField.bytes("fieldbus.hello.nonce", "Nonce of the sender"),
    peers = ProtoField.bytes("fieldbus.hello.peers_nonce", "Nonce of the receiver; zeros if the sender does not know it"),
    other_id = ProtoField.bytes("fieldbus.hello.other_key_id", "Identifier of the other master key"),
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

local destination, source = Field.new("eth.dst"), Field.new("eth.src")

local function address(field)
    local info = field()
    return info and info.range:bytes():tohex(true) or ""
end

local function written(hex)
    return (hex:gsub("(..)", "%1:"):sub(1, -2))
end

local function within(id, first, last)
    return id >= first and id <= last
end

local BROADCAST = "ffffffffffff"

-- Whether a frame with this identification and destination may be the protocol's: as `wire::fieldbus::Protocol`, and the group addresses
-- of the standards.
local RULES = {
    { "profinet", function(id, to, group)
        local cyclic = within(id, 0x0100, 0x0fff) or within(id, 0x8000, 0xbbff) or within(id, 0xc000, 0xf7ff)
        return cyclic and (not group or to:sub(1, 6) == "010ecf")
    end },
    { "goose", function(_, to) return to:sub(1, 8) == "010ccd01" end },
    { "sampled-values", function(_, to) return to:sub(1, 8) == "010ccd04" end },
    { "powerlink", function(id, to, group)
        if group then return to:sub(1, 6) == "01111e" end
        return math.floor(id / 256) == 3
    end },
    { "ethercat", function(id, to, group)
        return math.floor(id / 16) % 16 == 1 and (not group or to == BROADCAST or to:sub(1, 6) == "010105")
    end },
    { "sercos", function(id, to) return to == BROADCAST and math.floor(id / 4096) % 4 == 0 and math.floor(id / 16) % 8 == 0 end },
    { "ethernet-ip", function(id, to, group) return id == 2222 and (not group or to:sub(1, 6) == "01005e") end },
    { "modbus-tcp", function(id, _, group) return id == 502 and not group end },
}

local function protocols(id, to)
    local group = to ~= "" and tonumber(to:sub(2, 2), 16) % 2 == 1
    local names = {}
    for _, rule in ipairs(RULES) do
        if rule[2](id, to, group) then names[#names + 1] = rule[1] end
    end
    return table.concat(names, " or ")
end

-- Octets of a HELLO with this State.
local function hello_octets(state)
    return state:bitfield(3, 1) == 1 and HELLO + OTHER_KEY or HELLO
end

local function hello(tvb, tree)
    local octet = tvb(HEADER, 1)
    local state = tree:add(f.state, octet)
    for _, field in ipairs({ f.entered, f.encrypts, f.longer, f.chacha20, f.has_other, f.prefers, f.reserved }) do
        state:add(field, octet)
    end
    -- A preference without another key, and two suites at once, mean nothing either.
    if octet:bitfield(0, 2) ~= 0 or octet:bitfield(2, 2) == 2 or octet:bitfield(4, 2) == 3 then
        state:add_proto_expert_info(x.reserved)
    end
    tree:add(f.own, tvb(8, 16))
    tree:add(f.peers, tvb(24, 16))
    local whole = hello_octets(octet)
    if whole > HELLO then tree:add(f.other_id, tvb(40, OTHER_KEY)) end
    tree:add(f.mac, tvb(whole - 32, 32))
    if tvb:captured_len() > whole then tree:add(f.padding, tvb(whole)) end
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
    local least = HEADER + ICV
    if seq == 0 then least = octets > HEADER and hello_octets(tvb(HEADER, 1)) or HELLO end
    local to, from = address(destination), address(source)
    local relation = string.format("%s sends 0x%04x to %s", written(from), frame_id, written(to))
    if seq == 0 then relation = string.format("HELLOs for 0x%04x from %s to %s", frame_id, written(from), written(to)) end
    tree:add(f.relation, tvb(0, 2), relation):set_generated()
    if octets < least or octets < tvb:reported_len() then
        tree:add_proto_expert_info(x.truncated)
        return octets
    end
    if seq == 0 then
        pinfo.cols.info = string.format("HELLO, FrameID 0x%04x, KeyID %d, %s", frame_id, key_id, hello(tvb, tree))
    else
        if octets > least then tree:add(f.payload, tvb(HEADER, octets - least)) end
        tree:add(f.icv, tvb(octets - ICV, ICV))
        -- HELLOs go between stations, also where frames go to a group: of them the address says nothing.
        local names = protocols(frame_id, to)
        if names ~= "" then tree:add(f.protocol, tvb(0, 2), names):set_generated() end
        local shown = names ~= "" and "; " .. names or ""
        pinfo.cols.info = string.format("FrameID 0x%04x, KeyID %d, Seq %u%s", frame_id, key_id, seq, shown)
    end
    return octets
end

DissectorTable.get("ethertype"):add(ETHERTYPE, fieldbus)
