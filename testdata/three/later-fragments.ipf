block in quick from any to any with frag-body
