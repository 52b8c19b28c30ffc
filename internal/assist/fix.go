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

// refused finds the value that a problem is about, and accepted the list of those to use in its advice.
var (
	refused  = regexp.MustCompile(`^(?:unknown \w+ )?"([^"]+)"`)
	accepted = regexp.MustCompile(`^(?:use|write) ([^;]+)`)
	between  = regexp.MustCompile(`, | or `)
)

// valueFixOf returns how to write a value as one of those that the advice lists; nil if none is like it.
func valueFixOf(tree *draft.Tree, p *rule.Problem, place Range) *Fix {
	wrong, list := refused.FindStringSubmatch(p.What), accepted.FindStringSubmatch(p.Do)
	if wrong == nil || list == nil {
		return nil
	}
	near := rule.Nearest(wrong[1], between.Split(list[1], -1))
	if near == "" || near == wrong[1] {
		return nil
	}
	// The place may be the key of the value, which may begin with the same letters.
	word := regexp.MustCompile(`\b` + regexp.QuoteMeta(wrong[1]) + `\b`)
	at := word.FindStringIndex(tree.Text[place.From:tree.EndOfLine(place.From)])
	if at == nil {
		return nil
	}
	return &Fix{"write " + near, Edit{Range{place.From + at[0], place.From + at[1]}, near}}
}

// fixOf returns how to correct a problem at a place, as its advice says; nil if that is not a word in place of another
// one.
func fixOf(tree *draft.Tree, p *rule.Problem, place Range) *Fix {
	if fix := valueFixOf(tree, p, place); fix != nil {
		return fix
	}
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
