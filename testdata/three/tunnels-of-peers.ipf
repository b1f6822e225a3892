block in proto 47 all
block in proto 50 all
block in proto 89 all
pass in proto 47 from 198.51.100.9 to any
pass in proto 50 from 198.51.100.9 to any
pass in proto 89 from 198.51.100.10 to any
