package assist

import (
	"regexp"
	"strings"

	"github.com/usher-dev/usher/internal/assist/draft"
	"github.com/usher-dev/usher/internal/rule"
)

// A Fix corrects a problem: it replaces a part of the text.
type Fix struct {
	Title string

	Edit
}

// suggested finds what the advice of a problem suggests.
var suggested = regexp.MustCompile(`did you mean ([^\s?]+)\?`)

// fixOf returns how to correct a problem at a place, as its advice says; nil if that is not a word in place of another
// one.
func fixOf(tree *draft.Tree, p *rule.Problem, place Range) *Fix {
	m := suggested.FindStringSubmatch(p.What + " " + p.Do)
	if m == nil || place.From >= place.To {
		return nil
	}
	insert := m[1]
	insert = insert[strings.LastIndexAny(insert, ".[]/")+1:]
	from, to := place.From, place.To
	if p.Column > 0 {
		// The place is where the value begins of which something is misspelled.
		to = tree.EndOfLine(from)
	}
	var words []string
	at := map[string]int{}
	for _, t := range tokensOf(tree.Text[from:to]).tokens {
		word := tree.Text[from+t.from : from+t.to]
		if _, ok := at[word]; t.word && !ok {
			words, at[word] = append(words, word), from+t.from
		}
	}
	word := rule.Nearest(insert, words)
	if word == "" || word == insert || insert == "" {
		return nil
	}
	return &Fix{"write " + insert, Edit{Range{at[word], at[word] + len(word)}, insert}}
}
