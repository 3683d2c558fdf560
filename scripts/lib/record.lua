-- lib/record.lua: the record of an event that was taken. src/redis/protocol.rs has the layout.

-- The record that is being made: the fields of its reports, their number, and whether one of their scores is wide. One
-- list, reused for all records.
local fields, field_count, has_wide, report_fields = {}, 0, false, 2
-- The forms of records by how many fields their reports have.
local narrow_forms, wide_forms = {}, {}

local function is_wide(score)
  return score > NARROW_MAX or score < -NARROW_MAX - 1
end

-- Adds what a standing shows of the event. If scores are sums, the score before follows from the amount.
local function report(code, score, old_score, is_sum)
  fields[field_count + 1], fields[field_count + 2] = old_score and code + LISTED_BEFORE or code, score
  has_wide = has_wide or is_wide(score)
  if not is_sum then
    report_fields, fields[field_count + 3] = 3, old_score or 0
    has_wide = has_wide or is_wide(old_score or 0)
  end
  field_count = field_count + report_fields
end

-- The record of an event with its reports; the next record begins without any.
local function make_record(fingerprint, at, flags)
  local forms, count = has_wide and wide_forms or narrow_forms, field_count
  local form = forms[count]
  if not form then
    local score_form = has_wide and WIDE_SCORE_FORM or NARROW_SCORE_FORM
    form = HEAD_FORM .. string.rep(CODE_FORM .. string.rep(score_form, report_fields - 1), count / report_fields)
    forms[count] = form
  end
  if has_wide then flags = flags + WIDE end
  field_count, has_wide = 0, false
  if count == 2 then return struct.pack(form, fingerprint, at, flags, fields[1], fields[2]) end
  return struct.pack(form, fingerprint, at, flags, unpack(fields, 1, count))
end

-- The number of the last erasure of its member before an event was taken, 0 for none.
local function erasure_before(record)
  local _, _, flags = struct.unpack(HEAD_FORM, record)
  if flags % (2 * WITH_ERASURE) < WITH_ERASURE then return 0 end
  local token_bytes = flags % (2 * WITH_TOKEN) < WITH_TOKEN and 0 or TOKEN_BYTES
  return (struct.unpack(ERASURE_FORM, record, #record - token_bytes - ERASURE_BYTES + 1))
end

-- A record without what it reports.
local function bare(record)
  return string.sub(record, 1, HEAD_BYTES - 1) .. string.char(STATUS_ALONE)
end
