block in all
block out all
