# the last match decides
block in from 10.0.0.0/8 to any
pass in from 10.1.0.0/16 to any
block in from 10.1.2.0/24 to any
pass in from 10.1.2.3 to any
