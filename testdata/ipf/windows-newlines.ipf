pass in quick on lo0 all
block in log on hme0 all
pass out quick on hme0 all keep state
