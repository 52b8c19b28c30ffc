package doctest

// Both returns a text as a command of a session gets it, and a text as it is compared with the document.
func Both(names [][2]string, document, printed string) (replaced, restored string) {
	s := &session{names: names}
	return s.replace(document), s.restore(printed)
}
