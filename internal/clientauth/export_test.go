package clientauth

// Reread reads the files again, as Run does from time to time.
func (k *Authenticator) Reread() error { return k.read() }
