package live

// Admitted counts the policies that count against the quota because they were admitted.
func Admitted(l *Live) int {
	l.tally.mu.Lock()
	defer l.tally.mu.Unlock()
	count := 0
	for _, policies := range l.tally.admitted {
		count += len(policies)
	}
	return count
}
