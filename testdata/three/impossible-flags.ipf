block in quick proto tcp from any to any flags SF/SF
block in quick proto tcp from any to any flags SR/SR
block in quick proto tcp from any to any flags /FSRPAU
