package host

import "io/fs"

func (i *Info) read(root fs.FS) { i.readLinux(root) }
