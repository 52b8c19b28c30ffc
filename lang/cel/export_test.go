package cel

// HasBound reports whether the cost of calls of a function may have a bound.
func HasBound(function string) bool {
	_, known := ruleOf(function)
	return known
}
