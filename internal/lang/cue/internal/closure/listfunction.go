package closure

// listFunction returns a function of package list.
func listFunction(name string) function {
	switch name {
	case "list.Contains":
		return contains
	case "list.Concat":
		return func(m *machine, args []any) (any, status) {
			lists, ok := one[[]any](args)
			if !ok {
				return nil, unclear
			}
			return m.flatten(lists, 1, true)
		}
	case "list.FlattenN":
		return func(m *machine, args []any) (any, status) {
			lists, depth, ok := two[[]any, int64](args)
			if !ok {
				return nil, unclear
			}
			return m.flatten(lists, depth, false)
		}
	case "list.Max", "list.Min":
		return func(_ *machine, args []any) (any, status) {
			list, ok := one[[]any](args)
			if !ok {
				return nil, unclear
			}
			return most(list, name == "list.Max")
		}
	case "list.Sum":
		return total
	case "list.Range":
		return numbers
	}
	return nil
}

// contains computes list.Contains of scalars; lists and structs compare by content.
func contains(m *machine, args []any) (any, status) {
	if len(args) != 2 || !m.spend(1) {
		return nil, unclear
	}
	list, ok := args[0].([]any)
	if !ok || !m.spend(len(list)) {
		return nil, unclear
	}
	switch args[1].(type) {
	case nil, bool, string, int64:
	default:
		return nil, unclear
	}
	for _, v := range list {
		v, s := member(v)
		switch v.(type) {
		case nil, bool, string, int64:
		default:
			return nil, unclear
		}
		if s != known {
			return nil, unclear
		}
		if v == args[1] {
			return true, known
		}
	}
	return false, known
}

// flatten returns the members of lists in a list, to a depth; if all of them have to be
// lists, another value is unclear.
func (m *machine) flatten(lists []any, depth int64, all bool) (any, status) {
	flat := make([]any, 0, len(lists))
	var add func(list []any, depth int64) bool
	add = func(list []any, depth int64) bool {
		for _, v := range list {
			if c, ok := v.(chosen); ok {
				if _, isList := c.value.([]any); isList || all {
					return false
				}
			}
			inner, isList := v.([]any)
			switch {
			case isList && depth != 0:
				if !add(inner, depth-1) {
					return false
				}
				continue
			case all && depth == 1:
				return false
			}
			if !m.spend(1) {
				return false
			}
			flat = append(flat, v)
		}
		return true
	}
	if !add(lists, depth) {
		return nil, unclear
	}
	return flat, known
}

func most(list []any, greatest bool) (any, status) {
	if len(list) == 0 {
		return nil, unclear
	}
	var result int64
	for i, v := range list {
		v, s := member(v)
		n, ok := v.(int64)
		if !ok || s != known {
			return nil, unclear
		}
		if i == 0 || greatest == (n > result) {
			result = n
		}
	}
	return result, known
}

func total(_ *machine, args []any) (any, status) {
	list, ok := one[[]any](args)
	if !ok {
		return nil, unclear
	}
	sum := int64(0)
	for _, v := range list {
		v, s := member(v)
		n, ok := v.(int64)
		if !ok || s != known || n > 1<<52 || n < -1<<52 || sum > 1<<52 || sum < -1<<52 {
			return nil, unclear
		}
		sum += n
	}
	return sum, known
}

// longestRange is the most numbers that list.Range returns here; longer ranges go to the evaluator.
const longestRange = 100_000

// numbers computes list.Range of whole numbers.
func numbers(m *machine, args []any) (any, status) {
	if len(args) != 3 {
		return nil, unclear
	}
	from, to, ok := two[int64, int64](args[:2])
	step, isInt := args[2].(int64)
	const bound = 1 << 40
	if !ok || !isInt || step <= 0 || from > to || from < 0 || to > bound || step > bound {
		return nil, unclear
	}
	n := (to - from + step - 1) / step
	if n > longestRange || !m.spend(int(n)) {
		return nil, unclear
	}
	list := make([]any, 0, n)
	for i := from; i < to; i += step {
		list = append(list, i)
	}
	return list, known
}
