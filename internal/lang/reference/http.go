package reference

import (
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/rule"
)

// timeout bounds one request for a value, as it always has.
const timeout = time.Second

var errNoToken = errors.New("no available token")

// An httpSource is an HTTP request whose value is {body, header, trailer}.
type httpSource struct {
	method string
	url    urlPattern
	header map[string]string
	body   string
	auth   *v1alpha1.HttpRequestAuth
}

func compileHTTP(h *v1alpha1.HttpDataRef) (s *httpSource, name string, problems []rule.Problem) {
	if h == nil {
		return &httpSource{}, "", []rule.Problem{wrong("http", "the value comes from http, but http is missing", "say which url to ask")}
	}
	s = &httpSource{method: h.Method, header: h.Header, auth: h.Auth}
	switch h.Method {
	case "":
		s.method = "GET"
	case "GET", "POST":
	default:
		problems = append(problems, wrong("http.method", fmt.Sprintf("unknown method %q", h.Method), "use GET or POST"))
	}
	if h.Body != nil {
		s.body = string(h.Body.Raw)
	}
	var more []rule.Problem
	s.url, more = compileURL(h.URL, h.Params)
	problems = append(problems, more...)
	if parsed, err := url.Parse(s.url.text.sample()); err == nil && isLocal(parsed.Hostname()) {
		problems = append(problems, rule.Problem{
			Severity: rule.Warning, Field: "http.url", What: parsed.Hostname() + " is the host that Usher runs on, which it does not ask: every request that the rule is for fails",
			Do: "use the name of a service, or run Usher with --allow-local-facts",
		})
	}
	if h.Auth != nil && h.Auth.StaticToken == "" && h.Auth.AuthURL != "" {
		if err := checkURL(h.Auth.AuthURL); err != nil {
			problems = append(problems, wrong("http.auth.authUrl", err.Error(), "use a url such as https://service/login"))
		}
	}
	return s, "http " + s.method + " " + withoutSecrets(h.URL), problems
}

// isLocal reports whether a host is one that is not asked, as far as its name tells.
func isLocal(host string) bool {
	address := net.ParseIP(host)
	return host == "localhost" || address != nil && (address.IsLoopback() || address.IsLinkLocalUnicast() || address.IsUnspecified())
}

// withoutSecrets removes possible passwords and keys from a URL.
func withoutSecrets(text string) string {
	text, _, _ = strings.Cut(text, "?")
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return text
	}
	authority, path, hasPath := strings.Cut(rest, "/")
	if _, host, ok := strings.Cut(authority, "@"); ok {
		authority = host
	}
	if hasPath {
		authority += "/" + path
	}
	return scheme + "://" + authority
}

func (s *httpSource) load(in *rule.Input) (any, error) {
	address, ok, err := s.url.fill(in.Object)
	if err != nil {
		return nil, err
	}
	if !ok {
		return map[string]any{}, nil
	}
	request := &fact.HTTP{Method: s.method, URL: address, Header: s.header, Body: s.body, Timeout: timeout}
	if s.auth != nil {
		if err := authorize(request, s.auth, time.Now()); err != nil {
			return nil, err
		}
	}
	value, err := resolve(in, request)
	var missing *fact.Missing
	if err != nil && !errors.As(err, &missing) {
		// The first word is that of kinitiras; its users search their logs for it.
		return nil, fmt.Errorf("getHttpResponse %s: %w", request, err)
	}
	return value, err
}

// authorize adds the bearer token to request, or the credentials to get one.
func authorize(request *fact.HTTP, auth *v1alpha1.HttpRequestAuth, now time.Time) error {
	token := auth.StaticToken
	if token == "" && (auth.ExpireAt.IsZero() || auth.ExpireAt.After(now)) {
		token = auth.Token
	}
	switch {
	case token != "":
		header := make(map[string]string, len(request.Header)+1)
		for name, value := range request.Header {
			if textproto.CanonicalMIMEHeaderKey(name) != "Authorization" {
				header[name] = value
			}
		}
		header["Authorization"] = "Bearer " + token
		request.Header = header
	case auth.AuthURL != "":
		request.Auth = &fact.Auth{URL: auth.AuthURL, Username: auth.Username, Password: auth.Password, Lifetime: auth.ExpireDuration.Duration}
	default:
		return errNoToken
	}
	return nil
}

// A urlPattern is a URL with placeholders, and its parameters.
type urlPattern struct {
	text pattern
	// part returns for each placeholder of text the part of the URL that it is in.
	part   []urlPart
	params []param
}

type param struct {
	name  string
	value pattern
}

// A urlPart decides how a value from an object is put into a URL, such that it stays within
// its part.
type urlPart int

const (
	inHost urlPart = iota
	inPath
	inQuery
)

func compileURL(text string, params map[string]string) (urlPattern, []rule.Problem) {
	const do = "use a url such as https://service/path, with placeholders such as {{metadata.name}}"
	var u urlPattern
	var problems []rule.Problem
	var err error
	if u.text, err = parsePattern(text); err != nil {
		return u, []rule.Problem{wrong("http.url", err.Error(), do)}
	}
	if !u.text.constant() && !strings.Contains(u.text.literals[0], "://") {
		return u, []rule.Problem{wrong("http.url", "a placeholder stands where the url has its scheme", do)}
	}
	if err := checkURL(u.text.sample()); err != nil {
		problems = append(problems, wrong("http.url", err.Error(), do))
	}
	at := inHost
	for i := range u.text.paths {
		at = partAfter(at, u.text.literals[i], i == 0)
		u.part = append(u.part, at)
	}
	for name, value := range params {
		p, err := parsePattern(value)
		if err != nil {
			problems = append(problems, wrong("http.params."+name, err.Error(), do))
		}
		u.params = append(u.params, param{name: name, value: p})
	}
	slices.SortFunc(u.params, func(a, b param) int { return strings.Compare(a.name, b.name) })
	return u, problems
}

func checkURL(text string) error {
	parsed, err := url.Parse(text)
	switch {
	case err != nil:
		return fmt.Errorf("read url: %w", errors.Unwrap(err))
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		return fmt.Errorf("the url %q does not begin with http:// or https://", text)
	case parsed.Hostname() == "":
		return fmt.Errorf("the url %q names no host", text)
	}
	return nil
}

func partAfter(at urlPart, literal string, first bool) urlPart {
	if first {
		_, literal, _ = strings.Cut(literal, "://")
	}
	switch {
	case at == inQuery || strings.ContainsAny(literal, "?#"):
		return inQuery
	case at == inPath || strings.Contains(literal, "/"):
		return inPath
	}
	return inHost
}

// fill returns the complete URL. It is not ok if a placeholder finds nothing.
func (u *urlPattern) fill(object map[string]any) (address string, ok bool, err error) {
	values, ok, err := u.text.values(object)
	if !ok || err != nil {
		return "", false, err
	}
	var b strings.Builder
	for i, value := range values {
		b.WriteString(u.text.literals[i])
		escaped, err := u.part[i].escape(value)
		if err != nil {
			return "", false, fmt.Errorf("fill url: placeholder {{%s}}: %w", strings.Join(u.text.paths[i], "."), err)
		}
		b.WriteString(escaped)
	}
	b.WriteString(u.text.literals[len(values)])
	address = b.String()
	if slices.Contains(u.part, inPath) {
		if err := checkDots(address, u.text.sample()); err != nil {
			return "", false, err
		}
	}
	query := make([]string, 0, len(u.params))
	for i := range u.params {
		value, ok, err := u.params[i].value.fill(object)
		if !ok || err != nil {
			return "", false, err
		}
		query = append(query, url.QueryEscape(u.params[i].name)+"="+url.QueryEscape(value))
	}
	return withQuery(address, strings.Join(query, "&")), true, nil
}

// escape escapes value so that it cannot leave its part of the URL. Values come from objects, which
// are not trusted.
func (p urlPart) escape(value string) (string, error) {
	switch p {
	case inQuery:
		return url.QueryEscape(value), nil
	case inPath:
		return url.PathEscape(value), nil
	case inHost:
	}
	for i := range len(value) {
		c := value[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_' {
			return "", fmt.Errorf("%q cannot be part of a host name", value)
		}
	}
	return value, nil
}

// checkDots rejects a path in which values have produced a segment . or .., which would lead out of
// the path that the policy names.
func checkDots(address, sample string) error {
	if dots(address) > dots(sample) {
		return fmt.Errorf("fill url: %q has a . or .. segment that comes from the object", address)
	}
	return nil
}

func dots(address string) int {
	path, _, _ := strings.Cut(address, "?")
	n := 0
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			n++
		}
	}
	return n
}

// withQuery adds query to what the URL already has, and drops a fragment.
func withQuery(address, query string) string {
	address, _, _ = strings.Cut(address, "#")
	switch {
	case query == "":
		return address
	case !strings.Contains(address, "?"):
		return address + "?" + query
	case strings.HasSuffix(address, "?") || strings.HasSuffix(address, "&"):
		return address + query
	}
	return address + "&" + query
}
