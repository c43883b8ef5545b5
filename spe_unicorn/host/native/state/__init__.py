"""What compiled hooks and Python share."""

from spe_unicorn.host.native.state.whole import *
