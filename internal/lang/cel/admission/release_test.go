package admission_test

import (
	"testing"

	baseversion "k8s.io/component-base/version"

	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
)

// TestReleasesOfFunctions: each library is there from the release on that brought it.
func TestReleasesOfFunctions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ reason, expression, what, first string }{
		{"the language", "has(object.spec) && object.spec.containers.all(c, c.image.startsWith('x'))", "", "1.28"},
		{"URLs", "url('https://a').getHost() == 'a'", "", "1.28"},
		{"regular expressions", "'abc'.find('b') == 'b'", "", "1.28"},
		{"lists", "[1, 2].isSorted() && [1, 2].sum() == 3", "", "1.28"},
		{"authorizer", "authorizer.group('').resource('pods').check('get').allowed()", "", "1.28"},
		{"quantities", "quantity('1').isGreaterThan(quantity('2'))", "", "1.28"},
		{"optional values", "object.?spec.?replicas.orValue(1) > 1", "", "1.28"},
		{"numbers of two types", "object.spec.replicas < 1.5 && 1 < 1.5", "", "1.28"},
		{"variables of a policy", "variables.x == 1 && params.data.x == '1' && namespaceObject.metadata.name == 'a'", "", "1.28"},
		{"strings of version 2", "strings.quote('a') == ''", "strings.quote()", "1.29"},
		{"sets", "sets.contains(['a'], ['b'])", "sets.contains()", "1.29"},
		{"addresses", "ip('10.0.0.1').isLoopback()", "ip(), isLoopback()", "1.30"},
		{"ranges", "cidr('10.0.0.0/8').containsIP('10.0.0.1')", "cidr(), containsIP()", "1.30"},
		{"formats", "format.named('x').hasValue()", "format.named()", "1.31"},
		{"selectors", "authorizer.group('').resource('pods').labelSelector('a').check('list').allowed()", "labelSelector()", "1.31"},
		{"two variables", "object.metadata.labels.all(k, v, v != '')", "all() with two variables", "1.32"},
		{"two variables, mapped", "object.metadata.labels.transformList(k, v, v) == []", "transformList() with two variables", "1.32"},
		{"semantic versions", "semver('1.2.3').major() == 1", "major(), semver()", "1.33"},
		{"semantic versions, normalized", "isSemver('v1', true)", "isSemver()", "1.33"},
		{"lists of version 3", "[1, 2].sort() == [1]", "sort()", "1.34"},
		{"ranges of numbers", "lists.range(3) == [0]", "lists.range()", "1.34"},
		{"several, of which the newest counts", "[1].sort() == [1] && ip('10.0.0.1').isLoopback()", "ip(), isLoopback(), sort()", "1.34"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			since := rule.Releases()[0]
			what, first, err := new(admission.Portability).Lacks(since, test.expression)
			if err != nil || what != test.what || first.String() != test.first {
				t.Errorf("%s lacks %q until %s (%v), want %q until %s", since, what, first, err, test.what, test.first)
			}
			if what, _, err := new(admission.Portability).Lacks(first, test.expression); err != nil || what != "" {
				t.Errorf("%s lacks %q (%v)", first, what, err)
			}
			for _, earlier := range rule.Releases() {
				if what, _, _ := new(admission.Portability).Lacks(earlier, test.expression); (what != "") != (earlier.Minor() < first.Minor()) {
					t.Errorf("%s lacks %q", earlier, what)
				}
			}
		})
	}
}

// TestNewestRelease: the newest release is that whose libraries are built in.
func TestNewestRelease(t *testing.T) {
	t.Parallel()
	if newest := (rule.Release{}).String(); newest != baseversion.DefaultKubeBinaryVersion {
		t.Errorf("the newest release is %s, and the libraries are those of %s: see internal/rule/release.go", newest, baseversion.DefaultKubeBinaryVersion)
	}
}
