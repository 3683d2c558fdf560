-- audit_forget.lua: forgets which pseudonym a member has in the audit log. Its lines stay, but become anonymous.
-- Uses: lib/pseudonyms.lua
--
-- Takes: 3 keys, 1 argument
-- KEYS[1] hash: member -> pseudonym; KEYS[2] hash: pseudonym -> member; KEYS[3] sorted set of pseudonyms
--         (audit_members.lua)
-- ARGV[1] member
--
-- Reply: {'OK'}
-- Example: KEYS st:{boards}:audit-pseudonyms st:{boards}:audit-members st:{boards}:audit-seen  ARGV 'ann'  reply {'OK'}

local PSEUDONYMS, MEMBERS, SEEN = KEYS[1], KEYS[2], KEYS[3]

local pseudonym = redis.call('HGET', PSEUDONYMS, ARGV[1])
if pseudonym then forget(PSEUDONYMS, MEMBERS, SEEN, {pseudonym}) end
return {'OK'}
