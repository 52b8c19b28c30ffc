package overrun

import (
	"bytes"
	"runtime/pprof"
	"slices"
	"strings"
)

// maxStack limits the stack in a log line, in bytes.
const maxStack = 8 << 10

// stackOf returns the stacks of a goroutine, and of those that it has started.
func stackOf(number string) string {
	var text bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
		return err.Error()
	}
	var stacks []string
	for block := range strings.SplitSeq(text.String(), "\n\n") {
		if strings.Contains(block, `"`+label+`":"`+number+`"`) {
			stacks = append(stacks, block)
		}
	}
	all := strings.Join(stacks, "\n\n")
	return all[:min(len(all), maxStack)]
}

func sortByDue(all []Overrun) {
	slices.SortFunc(all, func(a, b Overrun) int { return a.Due.Compare(b.Due) })
}
