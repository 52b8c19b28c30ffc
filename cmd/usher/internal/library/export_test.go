package library

// Installable is installable.
func Installable(version string) string { return installable(version) }
