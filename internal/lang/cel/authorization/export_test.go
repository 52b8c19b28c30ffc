package authorization

// Unbounded returns the functions that expressions may name, and cannot call.
func Unbounded() ([]string, error) {
	env, err := shared()
	if err != nil {
		return nil, err
	}
	return env.Unbounded(), nil
}
