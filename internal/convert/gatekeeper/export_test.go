package gatekeeper

// Rewritten is rewritten.
var Rewritten = rewritten

// Templates returns the templates that [Nearest] knows.
func Templates() map[string]string { return nearest() }
