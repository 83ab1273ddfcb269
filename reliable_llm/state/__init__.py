"""Where the health of keys and candidates lives: in this process, or shared by many (`RedisHealth`)."""
