block in all
pass out all