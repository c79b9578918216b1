-- Wireshark: MACsec frames that Frameward fragments. See README.md for how to install it.
--
--   TCI 1 | EXT 1 bit, MF 1 bit, SL 6 bits | PN 4 | [SCI 8] | extension headers 2 each | secure data | ICV 16
--   extension header: SEGL 11 | reserved 3 | CF 1 | EXT 1; 0x0004: a padded frame, whose segments stand inside what is encrypted;
--   0x000c: the same, with the addresses of its SDUs
--
-- The standard reserves EXT and MF. A frame in which both are zero goes to Wireshark's own dissector, unchanged.
-- All that stands here is unencrypted but authenticated only by the ICV, which nothing here checks:
-- `frameward inspect --keys` does.

local MOST_EXTENSIONS = 32
local ICV = 16
local PADDED = 0x0004
local COVER = 0x000c

local macsec = Proto("frameward", "MACsec, fragmented by Frameward")

local f = {
    tci = ProtoField.uint8("frameward.tci", "TCI and AN", base.HEX),
    v = ProtoField.bool("frameward.v", "V: version", 8, nil, 0x80),
    es = ProtoField.bool("frameward.es", "ES: end station", 8, nil, 0x40),
    sc = ProtoField.bool("frameward.sc", "SC: the SCI follows", 8, nil, 0x20),
    scb = ProtoField.bool("frameward.scb", "SCB: single copy broadcast", 8, nil, 0x10),
    e = ProtoField.bool("frameward.e", "E: encrypted", 8, nil, 0x08),
    c = ProtoField.bool("frameward.c", "C: changed", 8, nil, 0x04),
    an = ProtoField.uint8("frameward.an", "AN", base.DEC, nil, 0x03),
    ext = ProtoField.bool("frameward.ext", "EXT: extension headers follow", 8, nil, 0x80),
    mf = ProtoField.bool("frameward.mf", "MF: the last SDU goes on in the frame with the next PN", 8, nil, 0x40),
    sl = ProtoField.uint8("frameward.sl", "SL: octets of secure data, if below 48", base.DEC, nil, 0x3f),
    pn = ProtoField.uint32("frameward.pn", "PN, or its low 32 bits", base.DEC),
    sci = ProtoField.bytes("frameward.sci", "SCI", base.COLON),
    sci_system = ProtoField.ether("frameward.sci.system", "System identifier"),
    sci_port = ProtoField.uint16("frameward.sci.port", "Port identifier", base.DEC),
    extension = ProtoField.uint16("frameward.extension", "Extension header", base.HEX),
    segl = ProtoField.uint16("frameward.extension.segl", "SEGL: octets of the next segment", base.DEC, nil, 0xffe0),
    reserved = ProtoField.uint16("frameward.extension.reserved", "Reserved", base.HEX, nil, 0x001c),
    cf = ProtoField.bool("frameward.extension.cf", "CF: the first segment continues an SDU", 16, nil, 0x0002),
    more = ProtoField.bool("frameward.extension.ext", "EXT: another header follows", 16, nil, 0x0001),
    data = ProtoField.bytes("frameward.data", "Secure data"),
    data_length = ProtoField.uint32("frameward.data.length", "Octets of secure data", base.DEC),
    segment = ProtoField.bytes("frameward.segment", "Segment"),
    segment_length = ProtoField.uint32("frameward.segment.length", "Octets of the segment", base.DEC),
    begins = ProtoField.bool("frameward.segment.begins", "Begins an SDU"),
    ends = ProtoField.bool("frameward.segment.ends", "Ends an SDU"),
    icv = ProtoField.bytes("frameward.icv", "ICV"),
    padding = ProtoField.bytes("frameward.padding", "Padding"),
}
macsec.fields = f

local function malformed(name, text)
    return ProtoExpert.new("frameward.malformed." .. name, text, expert.group.MALFORMED, expert.severity.ERROR)
end

local x = {
    truncated = malformed("truncated", "The frame ends inside the SecTAG"),
    version = malformed("version", "The version bit is set"),
    sc_bits = malformed("sc_bits", "ES or SCB together with SC"),
    encrypted = malformed("encrypted", "E without C"),
    short_length = malformed("short_length", "SL is above 47, or 1 without extension headers"),
    too_short = malformed("too_short", "Fewer octets than SL and the ICV ask for"),
    count = malformed("count", "More than 32 extension headers, or the frame ends inside them"),
    reserved = malformed("reserved", "A reserved bit of an extension header is set"),
    continuation = malformed("continuation", "CF outside the first extension header"),
    empty = malformed("empty", "SEGL 0 anywhere but in a sole extension header with CF"),
    sum = malformed("sum", "The segments leave nothing for the first one"),
    short_segment = malformed("short_segment", "A segment that begins a payload is shorter than an EtherType"),
}
macsec.experts = x

local ethertypes = DissectorTable.get("ethertype")
local standard = ethertypes:get_dissector(0x88e5)

-- The part of a range that was captured; nil if nothing of it was.
local function captured(tvb, offset, length)
    local there = math.min(length, tvb:captured_len() - offset)
    if there <= 0 then return nil end
    return tvb(offset, there)
end

-- The SecTAG; returns the octet behind it, or nil if it cannot be read on.
local function sectag(tvb, tree)
    local tci = tree:add(f.tci, tvb(0, 1))
    for _, field in ipairs({ f.v, f.es, f.sc, f.scb, f.e, f.c, f.an }) do tci:add(field, tvb(0, 1)) end
    local bit = function(at) return tvb(0, 1):bitfield(at, 1) == 1 end
    if bit(0) then tci:add_proto_expert_info(x.version) end
    if bit(2) and (bit(1) or bit(3)) then tci:add_proto_expert_info(x.sc_bits) end
    if bit(4) and not bit(5) then tci:add_proto_expert_info(x.encrypted) end
    for _, field in ipairs({ f.ext, f.mf, f.sl }) do tree:add(field, tvb(1, 1)) end
    local tag = bit(2) and 14 or 6
    if tvb:captured_len() < tag then
        tree:add_proto_expert_info(x.truncated)
        return nil
    end
    tree:add(f.pn, tvb(2, 4))
    if bit(2) then
        local sci = tree:add(f.sci, tvb(6, 8))
        sci:add(f.sci_system, tvb(6, 6))
        sci:add(f.sci_port, tvb(12, 2))
    end
    return tag
end

-- The extension headers from octet `at` on; returns their SEGLs (nil: they are encrypted), the first one's CF and the octet behind them.
local function extensions(tvb, tree, at)
    local lengths, continues = {}, false
    local more = tvb(1, 1):bitfield(0, 1) == 1
    while more do
        if #lengths == MOST_EXTENSIONS or tvb:captured_len() < at + 2 then
            tree:add_proto_expert_info(x.count)
            return nil
        end
        local header = tvb(at, 2)
        local item = tree:add(f.extension, header)
        if (header:uint() == PADDED or header:uint() == COVER) and #lengths == 0 then
            local cover = header:uint() == COVER
            item:append_text(cover and ": cover, its addresses and segments are encrypted" or ": a padded frame, its segments are encrypted")
            return nil, false, at + 2
        end
        for _, field in ipairs({ f.segl, f.reserved, f.cf, f.more }) do item:add(field, header) end
        local segl, cf = header:bitfield(0, 11), header:bitfield(14, 1) == 1
        more = header:bitfield(15, 1) == 1
        item:append_text(string.format(": SEGL %d%s", segl, cf and ", CF" or ""))
        if header:bitfield(11, 3) ~= 0 then item:add_proto_expert_info(x.reserved) end
        if cf and #lengths > 0 then item:add_proto_expert_info(x.continuation) end
        if #lengths == 0 then continues = cf end
        if segl == 0 and (more or #lengths > 0 or not cf) then item:add_proto_expert_info(x.empty) end
        table.insert(lengths, segl)
        at = at + 2
    end
    return lengths, continues, at
end

-- Octets of secure data from octet `at` on; nil if SL and the frame contradict each other.
local function secure_data(tvb, tree, at)
    local sl = tvb(1, 1):bitfield(2, 6)
    local most = tvb:reported_len() - at - ICV
    if sl > 47 or (sl == 1 and tvb(1, 1):bitfield(0, 1) == 0) then
        tree:add_proto_expert_info(x.short_length)
        return nil
    end
    if most < 0 or sl > most or (sl == 0 and most < 48) then
        tree:add_proto_expert_info(x.too_short)
        return nil
    end
    return sl == 0 and most or sl
end

-- Secure data and its segments; returns how many there are.
local function segments(tvb, tree, at, octets, lengths, continues, goes_on)
    local first = octets
    for _, length in ipairs(lengths) do first = first - length end
    local range = captured(tvb, at, octets)
    local data = range and tree:add(f.data, range) or tree
    data:add(f.data_length, octets):set_generated()
    if first <= 0 then
        data:add_proto_expert_info(x.sum)
        return 0
    end
    local all = { first }
    for _, length in ipairs(lengths) do
        if length > 0 then table.insert(all, length) end
    end
    for index, length in ipairs(all) do
        range = captured(tvb, at, length)
        local item = range and data:add(f.segment, range) or data:add(f.segment, tvb(0, 0))
        local begins, ends = index > 1 or not continues, index < #all or not goes_on
        item:add(f.segment_length, length):set_generated()
        item:add(f.begins, begins):set_generated()
        item:add(f.ends, ends):set_generated()
        if begins and length < 2 then item:add_proto_expert_info(x.short_segment) end
        at = at + length
    end
    return #all
end

function macsec.dissector(tvb, pinfo, root)
    if tvb:captured_len() < 2 or tvb(1, 1):bitfield(0, 2) == 0 then
        return standard:call(tvb, pinfo, root)
    end
    pinfo.cols.protocol = "MACSEC"
    local tree = root:add(macsec, tvb())
    local goes_on = tvb(1, 1):bitfield(1, 1) == 1
    local tag = sectag(tvb, tree)
    if not tag then return tvb:captured_len() end
    local lengths, continues, at = extensions(tvb, tree, tag)
    local octets = at and secure_data(tvb, tree, at)
    if not octets then return tvb:captured_len() end
    local range = captured(tvb, at, octets)
    if not lengths and range then tree:add(f.data, range):add(f.data_length, octets):set_generated() end
    local count = lengths and segments(tvb, tree, at, octets, lengths, continues, goes_on)
    local icv = captured(tvb, at + octets, ICV)
    if icv then tree:add(f.icv, icv) end
    local padding = captured(tvb, at + octets + ICV, tvb:reported_len())
    if padding then tree:add(f.padding, padding) end
    if not count then
        pinfo.cols.info = string.format("MACsec frame, AN %d, PN %u, padded", tvb(0, 1):bitfield(6, 2), tvb(2, 4):uint())
        return tvb:captured_len()
    end
    pinfo.cols.info = string.format("MACsec frame, AN %d, PN %u, %d segment%s%s%s",
        tvb(0, 1):bitfield(6, 2), tvb(2, 4):uint(), count, count == 1 and "" or "s",
        continues and ", continues an SDU" or "", goes_on and ", goes on" or "")
    return tvb:captured_len()
end

ethertypes:add(0x88e5, macsec)
