package authz_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/load"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	"k8s.io/client-go/tools/clientcmd"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
	webhookconfig "github.com/usher-dev/usher/internal/webhookconfig/authz"
	"github.com/usher-dev/usher/internal/webhookconfig/credential"
)

// compiled are the rules of policies whose specs are given.
func compiled(t *testing.T, specs ...string) []*authz.Rule {
	t.Helper()
	var policies []api.Policy
	for i, spec := range specs {
		policy, err := api.Decode([]byte(fmt.Sprintf(
			`{"apiVersion":"usher.dev/v1alpha1","kind":"ClusterAuthorizationPolicy","metadata":{"name":"p%d"},"spec":%s}`, i, spec)))
		if err != nil {
			t.Fatal(err)
		}
		policies = append(policies, policy)
	}
	all, problems := compile.All(policies)
	if errs := rule.Errors(problems); len(errs) > 0 {
		t.Fatal(errs)
	}
	return compile.Access(all)
}

const (
	hideDB = `{"effect":"Deny","subjects":[{"groups":["*"]}],"rules":[{"verbs":["get","list"],"apiGroups":[""],"resources":["secrets"],"names":["db"],"namespaces":["team-a"]}]}`
	noExec = `{"effect":"Deny","subjects":[{"groups":["devs"],"users":["o'neil"]},{"serviceAccounts":["ci/robot"]}],"rules":[{"verbs":["*"],"apiGroups":[""],"resources":["pods/exec","pods/*"],"namespaces":["*-prod"]},{"verbs":["get"],"nonResourceURLs":["/metrics*"]}]}`
	reads  = `{"effect":"Allow","subjects":[{"groups":["devs"]}],"rules":[{"verbs":["get"],"apiGroups":["*"],"resources":["*"]}]}`
)

var options = webhookconfig.Options{
	Server: "https://127.0.0.1:8444", Dir: "/etc/usher", CAFile: "ca.crt",
	Client: credential.Credential{CertFile: "/pki/client.crt", KeyFile: "/pki/client.key"}, Self: "system:serviceaccount:usher-system:usher",
}

// What is generated is what API servers take, with nothing for the lint to say.
func TestGeneratedConfigurationIsTaken(t *testing.T) {
	t.Parallel()
	rules := compiled(t, hideDB, noExec, reads)
	for _, row := range []struct {
		reason string
		change func(*webhookconfig.Options)
		// conditions of the webhook that denies.
		conditions int
	}{
		{"for policies", func(o *webhookconfig.Options) { o.Rules = rules }, 5},
		{"for any policies", func(o *webhookconfig.Options) { o.Any = true }, 4},
		{"without policies", func(*webhookconfig.Options) {}, 5},
		{"that fails closed", func(o *webhookconfig.Options) { o.FailurePolicy, o.Rules = "Deny", rules }, 5},
		{"whose answers are not remembered", func(o *webhookconfig.Options) { o.AuthorizedTTL, o.UnauthorizedTTL = -1, -1 }, 5},
		{"whose answers are remembered for a second", func(o *webhookconfig.Options) { o.AuthorizedTTL, o.UnauthorizedTTL = time.Second, time.Second }, 5},
		{"with a token", func(o *webhookconfig.Options) { o.Client = credential.Credential{TokenFile: "token"} }, 5},
	} {
		o := options
		row.change(&o)
		files, err := webhookconfig.Generate(o)
		if err != nil || len(files) != 3 {
			t.Fatalf("%s: %d files, %v", row.reason, len(files), err)
		}
		c, err := load.LoadFromData(files[0].Content)
		if err != nil {
			t.Fatalf("%s: %v", row.reason, err)
		}
		dir := t.TempDir()
		for _, file := range files {
			if err := os.WriteFile(filepath.Join(dir, file.Name), file.Content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for i, path := range map[int]string{1: "/authorize/deny", 3: "/authorize/allow"} {
			connection := &c.Authorizers[i].Webhook.ConnectionInfo
			name := filepath.Join(dir, strings.TrimPrefix(*connection.KubeConfigFile, "/etc/usher/"))
			connection.KubeConfigFile = &name
			config, err := clientcmd.LoadFromFile(name)
			if err != nil {
				t.Fatalf("%s: %v", row.reason, err)
			}
			context := config.Contexts[config.CurrentContext]
			server, user := config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo]
			if server.Server != "https://127.0.0.1:8444"+path || server.CertificateAuthority != "/etc/usher/ca.crt" {
				t.Errorf("%s: %s leads to %s, trusted by %s", row.reason, name, server.Server, server.CertificateAuthority)
			}
			if (user.ClientCertificate == "/pki/client.crt") != (o.Client.CertFile != "") || (user.TokenFile == "/etc/usher/token") != (o.Client.TokenFile != "") {
				t.Errorf("%s: %s shows %q and %q", row.reason, name, user.ClientCertificate, user.TokenFile)
			}
		}
		if n := len(c.Authorizers[1].Webhook.MatchConditions); n != row.conditions {
			t.Errorf("%s: %d conditions", row.reason, n)
		}
		known := sets.New("Webhook", "Node", "RBAC")
		if errs := validation.ValidateAuthorizationConfiguration(authorizationcel.NewDefaultCompiler(), nil, c, known, sets.New("Webhook")); len(errs) > 0 {
			t.Errorf("%s: %v", row.reason, errs)
		}
		lint := webhookconfig.Lint{Rules: o.Rules, ReadFile: func(name string) ([]byte, error) {
			return os.ReadFile(filepath.Join(dir, filepath.Base(name)))
		}}
		if problems := lint.Check(files[0].Content); len(problems) > 0 {
			t.Errorf("%s: %v", row.reason, problems)
		}
	}
}

func TestAnswersAreRememberedAsLongAsSaid(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		set, want time.Duration
		cached    bool
	}{{0, 30 * time.Second, true}, {time.Minute, time.Minute, true}, {-1, 5 * time.Minute, false}} {
		o := options
		o.AuthorizedTTL = row.set
		files, err := webhookconfig.Generate(o)
		if err != nil {
			t.Fatal(err)
		}
		c, err := load.LoadFromData(files[0].Content)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range []int{1, 3} {
			w := c.Authorizers[i].Webhook
			if w.CacheAuthorizedRequests != row.cached || w.AuthorizedTTL.Duration != row.want {
				t.Errorf("%s: an API server has %s, cached %t", row.set, w.AuthorizedTTL.Duration, w.CacheAuthorizedRequests)
			}
			if w.UnauthorizedTTL.Duration != 10*time.Second || !w.CacheUnauthorizedRequests {
				t.Errorf("%s: what is not allowed is remembered for %s", row.set, w.UnauthorizedTTL.Duration)
			}
		}
	}
}

func TestLegacy(t *testing.T) {
	t.Parallel()
	file, err := webhookconfig.Legacy(options)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.Load(file.Content)
	if err != nil || config.Clusters["usher"].Server != "https://127.0.0.1:8444/authorize" || config.CurrentContext != "usher" {
		t.Errorf("%v: %s", err, file.Content)
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		want   string
		change func(*webhookconfig.Options)
	}{
		{"https://, a host", func(o *webhookconfig.Options) { o.Server = "http://127.0.0.1:8444" }},
		{"https://, a host", func(o *webhookconfig.Options) { o.Server = "https://host/path" }},
		{"https://, a host", func(o *webhookconfig.Options) { o.Server = "" }},
		{"begins with /", func(o *webhookconfig.Options) { o.Dir = "here" }},
		{"use NoOpinion or Deny", func(o *webhookconfig.Options) { o.FailurePolicy = "Fail" }},
		{"lock everybody out", func(o *webhookconfig.Options) { o.FailurePolicy, o.Server = "Deny", "https://usher.usher-system.svc" }},
		{"at most 30s", func(o *webhookconfig.Options) { o.Timeout = time.Minute }},
		{"come together", func(o *webhookconfig.Options) { o.Client.KeyFile = "" }},
	} {
		o := options
		row.change(&o)
		if _, err := webhookconfig.Generate(o); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("error is %v, want %q in it", err, row.want)
		}
		if _, err := webhookconfig.Legacy(o); err == nil {
			t.Errorf("%s: no error for a single webhook", row.want)
		}
	}
}

// Every request that a Deny may match is sent, for any user: the conditions leave out only what the
// webhook does not decide. They are evaluated as in API servers.
func TestConditionsLetThroughWhatIsDenied(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	pick := func(texts ...string) string { return texts[random.IntN(len(texts))] }
	list := func(texts ...string) string {
		var some []string
		for range 1 + random.IntN(2) {
			some = append(some, fmt.Sprintf("%q", pick(texts...)))
		}
		slices.Sort(some)
		return "[" + strings.Join(slices.Compact(some), ",") + "]"
	}
	sent, kept := 0, 0
	for range 60 {
		var specs []string
		for range 1 + random.IntN(4) {
			specs = append(specs, fmt.Sprintf(`{"effect":%q,"subjects":[{%q:%s}],"rules":[%s]}`, pick("Deny", "Deny", "Allow"),
				"groups", list("devs", "ops-*", "*", "o'neil\\\\"), randomRule(random, list)))
		}
		rules := compiled(t, specs...)
		condition := apiserver.WebhookMatchCondition{Expression: webhookconfig.Target(rules)}
		matcher, errs := validation.ValidateAndCompileMatchConditions(authorizationcel.NewDefaultCompiler(), []apiserver.WebhookMatchCondition{condition})
		if len(errs) > 0 {
			t.Fatalf("%s: %v", condition.Expression, errs)
		}
		for range 60 {
			r := randomRequest(random, pick)
			q := authz.QueryOf(r, nil)
			denied := slices.ContainsFunc(rules, func(rule *authz.Rule) bool {
				return rule.Policy.Effect == authz.Deny && rule.Matches(&q)
			})
			matches, err := matcher.Eval(t.Context(), reviewOf(r))
			if err != nil {
				t.Errorf("%s fails for %+v %+v: %v", condition.Expression, r, r.Access, err)
			}
			if denied && !matches {
				t.Errorf("%s\ndoes not let through what is denied:\n%+v %+v\n%v", condition.Expression, r, r.Access, specs)
			}
			if denied {
				sent++
			} else if !matches {
				kept++
			}
		}
	}
	if sent < 100 || kept < 100 {
		t.Errorf("%d requests were denied, and %d not sent: too few to show anything", sent, kept)
	}
}

func randomRule(random *rand.Rand, list func(...string) string) string {
	if random.IntN(4) == 0 {
		return fmt.Sprintf(`{"verbs":%s,"nonResourceURLs":%s}`, list("get", "*"), list("/metrics", "/debug/*", "*"))
	}
	text := fmt.Sprintf(`{"verbs":%s,"apiGroups":%s,"resources":%s`, list("get", "list", "create", "*"), list("", "apps", "*"), list("pods", "secrets", "pods/exec", "pods/*", "*/scale", "namespaces", "*"))
	if random.IntN(2) == 0 {
		text += `,"namespaces":` + list("a", "b", "team-*", "*-prod", "$(user)")
	}
	if random.IntN(2) == 0 {
		text += `,"names":` + list("x", "y", "app-*")
	}
	return text + "}"
}

func randomRequest(random *rand.Rand, pick func(...string) string) *usher.Request {
	r := &usher.Request{
		Phase:  usher.Authorize,
		User:   usher.User{Name: pick("a", "jane"), Groups: []string{pick("devs", "ops-1", `o'neil\\`, "others")}},
		Access: &usher.Access{Verb: pick("get", "list", "create", "*")},
	}
	if random.IntN(4) == 0 {
		r.Access.NonResource, r.Access.Path = true, pick("/metrics", "/debug/pprof", "/x", "*", "")
		return r
	}
	r.Resource = schema.GroupVersionResource{Group: pick("", "apps", "*"), Resource: pick("pods", "secrets", "deployments", "namespaces", "*")}
	r.Subresource, r.Namespace, r.Name = pick("", "", "exec", "scale", "*"), pick("", "a", "team-1", "x-prod", "*"), pick("", "x", "app-1", "z", "*")
	return r
}

func reviewOf(r *usher.Request) *authorizationv1.SubjectAccessReview {
	review := &authorizationv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
		Spec:     authorizationv1.SubjectAccessReviewSpec{User: r.User.Name, Groups: r.User.Groups},
	}
	if r.Access.NonResource {
		review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: r.Access.Path, Verb: r.Access.Verb}
		return review
	}
	review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
		Namespace: r.Namespace, Verb: r.Access.Verb, Group: r.Resource.Group, Resource: r.Resource.Resource, Subresource: r.Subresource, Name: r.Name,
	}
	return review
}

func TestTarget(t *testing.T) {
	t.Parallel()
	many := make([]string, 200)
	for i := range many {
		many[i] = fmt.Sprintf(`{"effect":"Deny","subjects":[{"groups":["*"]}],"rules":[{"verbs":["get"],"apiGroups":["g%d"],"resources":["r"],"names":["n%d"]}]}`, i%3, i)
	}
	for _, row := range []struct {
		reason string
		rules  []*authz.Rule
		want   string
	}{
		{"nothing", nil, "has(request.resourceAttributes) ? false : false"},
		{"nothing is denied", compiled(t, reads), "has(request.resourceAttributes) ? false : false"},
		{
			"a name in a namespace", compiled(t, hideDB),
			"has(request.resourceAttributes) ? request.resourceAttributes.group in ['', '*'] && request.resourceAttributes.verb in ['*', 'get', 'list']" +
				" && request.resourceAttributes.resource in ['*', 'secrets'] && request.resourceAttributes.namespace in ['', '*', 'team-a']" +
				" && request.resourceAttributes.name in ['', '*', 'db'] : false",
		},
		{
			"some users and paths", compiled(t, noExec),
			`has(request.resourceAttributes) ? request.resourceAttributes.group in ['', '*'] && (request.user in ['o\'neil', 'system:serviceaccount:ci:robot'] || 'devs' in request.groups)` +
				` && request.resourceAttributes.resource in ['*', 'pods'] && (request.resourceAttributes.namespace in ['', '*'] || request.resourceAttributes.namespace.endsWith('-prod'))` +
				` : (request.user in ['o\'neil', 'system:serviceaccount:ci:robot'] || 'devs' in request.groups) && request.nonResourceAttributes.verb in ['*', 'get']` +
				` && (request.nonResourceAttributes.path in ['*'] || request.nonResourceAttributes.path.startsWith('/metrics'))`,
		},
		{
			"very much", compiled(t, many...),
			"has(request.resourceAttributes) ? (request.resourceAttributes.group in ['*', 'g0'] || request.resourceAttributes.group in ['*', 'g1'] || request.resourceAttributes.group in ['*', 'g2']) : false",
		},
	} {
		if got := webhookconfig.Target(row.rules); got != row.want {
			t.Errorf("%s:\ngot  %s\nwant %s", row.reason, got, row.want)
		}
	}
}
