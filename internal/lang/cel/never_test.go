package cel_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"

	"github.com/usher-dev/usher/internal/lang/cel"
)

// TestNeverMatching tells which regular expressions are known to match no text.
func TestNeverMatching(t *testing.T) {
	t.Parallel()
	env, err := celgo.NewEnv(celgo.Variable("name", celgo.StringType))
	if err != nil {
		t.Fatal(err)
	}
	const begins = ": ^ is the beginning of the text, and characters come before it"
	const ends = ": $ is the end of the text, and characters come after it"
	for _, row := range []struct {
		reason, pattern string
		never           bool
		why             string
	}{
		{"an end in the middle", `^a$b`, true, ends},
		{"a beginning at the end", `a^`, true, begins},
		{"behind what is optional", `a?^b`, false, ""},
		{"behind what is there at least once", `[a-z]+^b`, true, begins},
		{"before what is optional", `a$b*`, false, ""},
		{"in a group", `(a)(^b)`, true, begins},
		{"each alternative", `a^|b$c`, true, begins},
		{"one alternative", `a^|b`, false, ""},
		{"each alternative has a character", `(a|b)^`, true, begins},
		{"one alternative has none", `(a|)^`, false, ""},
		{"both anchors with nothing between", `^$`, false, ""},
		{"anchors in the other order", `$^`, false, ""},
		{"again and again", `(^a){2}`, true, begins},
		{"any number of times", `(a^)*`, false, ""},
		{"once or never", `(^a){0,2}`, false, ""},
		{"lines have ends in the middle", "(?m)a$\\nb", false, ""},
		{"the text does not, whatever lines do", `(?m)a\zb`, true, ends},
		{"a class without characters", `[^\x00-\x{10FFFF}]`, true, ""},
		{"anchors are characters in classes", `a[$^]b`, false, ""},
		{"escaped anchors", `a\$b\^`, false, ""},
		{"words", `a\bb`, false, ""},
		{"nothing", ``, false, ""},
	} {
		want := []cel.Issue{}
		text := fmt.Sprintf("name == 'a' ||\n  name.matches(r'%s')", row.pattern)
		checked, issues := env.Compile(text)
		if issues.Err() != nil {
			t.Fatalf("%s: %v", row.reason, issues.Err())
		}
		if row.never {
			want = append(want, cel.Issue{Line: 2, Column: 16, What: fmt.Sprintf("the regular expression %q matches no text%s", row.pattern, row.why)})
		}
		got := cel.SurelyWrong(checked)
		for i := range got {
			if got[i].Do == "" {
				t.Errorf("%s: what to do is not told", row.reason)
			}
			got[i].Do = ""
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", row.reason, got, want)
		}
	}
}

// TestAnchorsInTexts: functions that look for text take no regular expressions.
func TestAnchorsInTexts(t *testing.T) {
	t.Parallel()
	env, err := celgo.NewEnv(celgo.Variable("name", celgo.StringType))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ reason, expression, anchor string }{
		{"the beginning", `name.startsWith('^abc')`, "^"},
		{"the end", `name.endsWith('x$')`, "$"},
		{"the beginning in the middle", `name.contains('^abc')`, "^"},
		{"the character alone", `name.startsWith('^') || name.endsWith('$')`, ""},
		{"the other end", `name.startsWith('x$') || name.endsWith('^x')`, ""},
		{"an amount", `name.contains('US$')`, ""},
		{"a regular expression", `name.matches('^abc$')`, ""},
		{"no constant", `name.startsWith('^' + name)`, ""},
	} {
		checked, issues := env.Compile(row.expression)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		got := cel.SurelyWrong(checked)
		if row.anchor == "" && len(got) == 0 {
			continue
		}
		if len(got) != 1 || !strings.Contains(got[0].What, "looks for the character "+row.anchor+" ") || row.expression[got[0].Column-1] != '\'' {
			t.Errorf("%s: %v", row.reason, got)
		}
	}
}

// TestNeverMatchingIsRight tries all short patterns of some characters on short texts.
func TestNeverMatchingIsRight(t *testing.T) {
	t.Parallel()
	env, err := celgo.NewEnv(celgo.Variable("name", celgo.StringType))
	if err != nil {
		t.Fatal(err)
	}
	never := 0
	patterns := []string{""}
	for range 4 {
		for _, begun := range patterns {
			for _, next := range "a^$|*" {
				patterns = append(patterns, begun+string(next))
			}
		}
		patterns = patterns[len(patterns)/6:]
		for _, pattern := range patterns {
			re, err := regexp.Compile(pattern)
			if err != nil {
				continue
			}
			checked, issues := env.Compile(fmt.Sprintf("name.matches('%s')", pattern))
			if issues.Err() != nil {
				t.Fatal(issues.Err())
			}
			if len(cel.SurelyWrong(checked)) == 0 {
				continue
			}
			never++
			for _, text := range []string{"", "a", "aa", "aaa"} {
				if re.MatchString(text) {
					t.Errorf("%q matches %q", pattern, text)
				}
			}
		}
	}
	if never == 0 {
		t.Error("no pattern was tried")
	}
}
