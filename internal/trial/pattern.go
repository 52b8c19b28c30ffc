package trial

import (
	"regexp/syntax"
	"strings"
)

// longestMatch limits the length of a text for a pattern.
const longestMatch = 200

// matching returns a text that a regular expression matches.
func matching(pattern string) (string, bool) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "", false
	}
	var text strings.Builder
	if !write(re.Simplify(), &text) {
		return "", false
	}
	return text.String(), true
}

// write writes a short match, which is simple to find.
func write(re *syntax.Regexp, text *strings.Builder) bool {
	if text.Len() > longestMatch {
		return false
	}
	switch re.Op {
	case syntax.OpLiteral:
		text.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		if len(re.Rune) == 0 {
			return false
		}
		text.WriteRune(letter(re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		text.WriteByte('x')
	case syntax.OpCapture, syntax.OpPlus:
		return write(re.Sub[0], text)
	case syntax.OpRepeat:
		for range re.Min {
			if !write(re.Sub[0], text) {
				return false
			}
		}
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if !write(sub, text) {
				return false
			}
		}
	case syntax.OpAlternate:
		return write(re.Sub[0], text)
	case syntax.OpNoMatch, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return false
	case syntax.OpEmptyMatch, syntax.OpStar, syntax.OpQuest, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText:
	}
	return true
}

// letter returns a lower-case letter of a class, or its first character.
func letter(class []rune) rune {
	for i := 0; i+1 < len(class); i += 2 {
		if class[i] <= 'x' && 'x' <= class[i+1] {
			return 'x'
		}
	}
	return class[0]
}
