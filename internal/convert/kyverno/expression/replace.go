package expression

import (
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
)

// regexReplace writes regex_replace_all(), of which CEL has nothing alike, for two sorts of patterns: a text and all that
// follows it, which is left out, and one of a whole text whose last group is its rest, which is what is kept.
func regexReplace(t *translation, args []Value) (Value, error) {
	pattern, ok := args[0].Constant.(string)
	of := args[1]
	by, known := args[2].Constant.(string)
	if !ok || !known || of.Type.Kind != Text && of.Type.Kind != Any {
		return of, refuse(writeIt, "regex_replace_all() of a pattern or by a text that is no constant, or of something that is no text, is not imported")
	}
	if text, ok := strings.CutSuffix(pattern, ".*"); ok && by == "" && text != "" && regexp.QuoteMeta(text) == text {
		t.note("a text of several lines is cut at its first " + text)
		return fresh(of.in(postfix)+".split("+quote(text)+")[0]", postfix, Type{Kind: Text, Plain: of.Type.Plain}), nil
	}
	head, groups, ok := headOf(pattern)
	kept, last := strings.CutSuffix(by, "$"+strconv.Itoa(groups))
	if !ok || !last || strings.ContainsAny(kept, "$") {
		return of, refuse(writeIt, "CEL has nothing like regex_replace_all()")
	}
	t.note("a text of several lines may be replaced in another way")
	whole := of.in(postfix) + ".matches(" + quote(pattern) + ")"
	rest := of.in(postfix) + ".substring(size(" + of.in(postfix) + ".find(" + quote(head) + ")))"
	return fresh(whole+" ? "+quote(kept)+" + "+rest+" : "+of.in(disjunction), ternary, Type{Kind: Text}), nil
}

// headOf returns what a pattern has before its last group, the rest of the text, and how many groups it has.
func headOf(pattern string) (head string, groups int, ok bool) {
	head, ok = strings.CutSuffix(pattern, "(.*)$")
	if !ok || !strings.HasPrefix(head, "^") {
		return "", 0, false
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	before, errBefore := syntax.Parse(head, syntax.Perl)
	if err != nil || errBefore != nil || parsed.MaxCap() != before.MaxCap()+1 || strings.Contains(head, "|^") || before.Op == syntax.OpAlternate {
		return "", 0, false
	}
	return head, parsed.MaxCap(), true
}
