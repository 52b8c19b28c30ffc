package gatekeeper

// Templates returns the templates that [Nearest] knows.
func Templates() map[string]string { return nearest() }
