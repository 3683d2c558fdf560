-- fill_words.lua: notes that the index of the words of names has all profiles of one bucket, if nothing has interrupted the
-- filling.
--
-- Takes: 1 key, 2 arguments
-- KEYS[1] the state of the index
-- ARGV[1] the state that the filling began with
-- ARGV[2] the new one
--
-- Reply: 1, or 0 if the state is another one: the index was removed meanwhile, or another instance fills it
-- Example: KEYS st:{profiles:07}:words-state  ARGV 'filling 12' 'filled'  reply 1

if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
