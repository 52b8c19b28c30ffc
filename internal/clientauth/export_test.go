package clientauth

// Reread reads the files again, as Run does now and then.
func (k *Authenticator) Reread() error { return k.read() }
