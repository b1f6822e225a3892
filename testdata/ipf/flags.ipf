block in proto tcp all flags FUP
block in proto tcp all flags SF/SFRA
block in proto tcp all flags /SFRA
block in proto tcp all flags FSRPAU/FSRPAU
pass in proto tcp all flags SEC/SAFREC
pass in proto tcp all flags 0x12/0x3f
pass in proto tcp all flags 2
pass in proto tcp from any to any port = 22 flags A/A
