PASS IN QUICK ON lo0 ALL
Block In Log Quick On bge0 Proto TCP From Any To Any Port = 23
block in PROTO Udp from ANY to any Port = snmp
