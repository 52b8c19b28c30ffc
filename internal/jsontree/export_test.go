package jsontree

// Sound reports whether it is known that the value can be decoded.
func (o SkipIndex) Sound() bool { return o.sound }
