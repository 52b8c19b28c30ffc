package memory

// BudgetOf is the budget with a GOMEMLIMIT.
func BudgetOf(limit int64) int64 { return budget(limit) }

// GrowthPercent is how many percent of what is in use may be allocated until the next collection.
func GrowthPercent(live uint64) int { return gcPercent(live) }
