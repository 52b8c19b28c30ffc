package proof_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/keyring"
	"github.com/usher-dev/usher/internal/proof"
)

func key(t testing.TB, fill byte) keyring.Key {
	t.Helper()
	k, err := keyring.KeyOf(bytes.Repeat([]byte{fill}, keyring.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func prover(t *testing.T, record proof.Record, valid ...byte) *proof.Prover {
	t.Helper()
	p, s := &proof.Prover{}, proof.State{Record: record}
	for _, fill := range valid {
		s.Valid = append(s.Valid, key(t, fill))
	}
	s.Sign = s.Valid[0]
	p.Use(s)
	return p
}

// made is a record of nothing.
func made() proof.Record { return proof.RecordOf(nil, time.Now()) }

func proven(t *testing.T, p *proof.Prover, object api.Object) api.Object {
	t.Helper()
	text, err := p.Make(object)
	if err != nil {
		t.Fatal(err)
	}
	object.SetAnnotations(map[string]string{proof.Annotation: text})
	return object
}

// TestProofsAreForOnePolicy replays a proof wherever somebody could put it.
func TestProofsAreForOnePolicy(t *testing.T) {
	t.Parallel()
	p := prover(t, made(), 1)
	text := proven(t, p, policy(t, "AuthorizationPolicy", "{"+allow+"}")).GetAnnotations()[proof.Annotation]
	for _, row := range []struct {
		reason string
		object func() api.Object
		want   string
	}{
		{"where it belongs", func() api.Object { return policy(t, "AuthorizationPolicy", "{"+allow+"}") }, ""},
		{"an API server has filled in defaults", func() api.Object { return policy(t, "AuthorizationPolicy", "{enforcement: Enforce, "+allow+"}") }, ""},
		{"another spec", func() api.Object {
			return policy(t, "AuthorizationPolicy", "{"+strings.Replace(allow, "jane", "joe", 1)+"}")
		}, "another spec, name or namespace"},
		{"another name", func() api.Object {
			o := policy(t, "AuthorizationPolicy", "{"+allow+"}")
			o.SetName("q")
			return o
		}, "another spec, name or namespace"},
		{"another namespace", func() api.Object {
			o := policy(t, "AuthorizationPolicy", "{"+allow+"}")
			o.SetNamespace("bank")
			return o
		}, "another spec, name or namespace"},
		{"the border between namespace and name moved", func() api.Object {
			o := policy(t, "AuthorizationPolicy", "{"+allow+"}")
			o.SetNamespace("shopp")
			o.SetName("")
			return o
		}, "cannot be checked"},
		{"another kind that says the same", func() api.Object {
			o := policy(t, "ClusterAuthorizationPolicy", "{"+allow+"}")
			return o
		}, "another spec, name or namespace"},
	} {
		object := row.object()
		object.SetAnnotations(map[string]string{proof.Annotation: text})
		got := p.Check(object)
		if (got.State == api.Proven) != (row.want == "") || !strings.Contains(got.Why, row.want) {
			t.Errorf("%s: %+v, want %q", row.reason, got, row.want)
		}
	}
}

func TestWhatIsNoProof(t *testing.T) {
	t.Parallel()
	p := prover(t, made(), 1)
	good := proven(t, p, policy(t, "AuthorizationPolicy", "{"+allow+"}")).GetAnnotations()[proof.Annotation]
	parts := strings.Split(good, ".")
	mac, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || len(mac) != 32 {
		t.Fatalf("the MAC has %d bytes, %v", len(mac), err)
	}
	for _, row := range []struct{ reason, text, want string }{
		{"nothing", "", "it has no proof"},
		{"the word for adoption", proof.Adopt, "is no proof"},
		{"a prefix of the MAC", parts[0] + "." + parts[1] + "." + base64.RawURLEncoding.EncodeToString(mac[:16]), "for something else"},
		{"no MAC", parts[0] + "." + parts[1] + ".", "for something else"},
		{"a MAC of zeros", parts[0] + "." + parts[1] + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 32)), "for something else"},
		{"a longer MAC", good + "AAAA", "for something else"},
		{"bits behind the MAC", good[:len(good)-1] + flipped(good[len(good)-1]), "is no proof"},
		{"padding", good + "=", "is no proof"},
		{"another version", "v2" + good[2:], "is no proof"},
		{"a fourth part", good + ".x", "is no proof"},
		{"no key", parts[0] + ".." + parts[2], "by a key that is not known here"},
		{"a key with a name that is long", parts[0] + "." + strings.Repeat("k", 100_000) + "." + parts[2], `("kkkkkkkkkkkkkkkk")`},
		{"another key", func() string {
			text, err := proof.Make(key(t, 2), policy(t, "AuthorizationPolicy", "{"+allow+"}"))
			if err != nil {
				t.Fatal(err)
			}
			return text
		}(), "comes from another cluster or a backup, or the key was lost"},
	} {
		object := policy(t, "AuthorizationPolicy", "{"+allow+"}")
		object.SetAnnotations(map[string]string{proof.Annotation: row.text})
		got := p.Check(object)
		if got.State != api.Unproven || !strings.Contains(got.Why, row.want) || len(got.Why) > 300 {
			t.Errorf("%s: %.400v, want %q", row.reason, got, row.want)
		}
	}
}

// flipped is a base64 digit with the same bits of a MAC and other bits behind them.
func flipped(digit byte) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(digits[strings.IndexByte(digits, digit)|1])
}

func TestKindsThatNeedNoProof(t *testing.T) {
	t.Parallel()
	p := prover(t, made(), 1)
	for _, kind := range api.Kinds() {
		if got := p.Check(kind.New()); (got == api.Proof{}) == kind.NeedsProof {
			t.Errorf("%s, which needs a proof: %t: %+v", kind.Kind, kind.NeedsProof, got)
		}
	}
}

func TestKeysInRotation(t *testing.T) {
	t.Parallel()
	object := proven(t, prover(t, made(), 1), policy(t, "OverridePolicy", override("{cue: 'x: 1'}")))
	p := prover(t, made(), 2, 1)
	if got := p.Check(object); got.State != api.Proven {
		t.Errorf("by the key before: %+v", got)
	}
	if text := proven(t, p, policy(t, "OverridePolicy", override("{cue: 'x: 1'}"))).GetAnnotations()[proof.Annotation]; !strings.Contains(text, key(t, 2).Fingerprint()) {
		t.Errorf("the new key does not sign: %s", text)
	}
	p.Use(proof.State{Sign: key(t, 3), Valid: []keyring.Key{key(t, 3), key(t, 2)}, Record: made()})
	if got := p.Check(object); got.State != api.Unproven {
		t.Errorf("by the key before that one: %+v", got)
	}
}

func TestProofsByKeysOfOtherReplicas(t *testing.T) {
	t.Parallel()
	object := proven(t, prover(t, made(), 2), policy(t, "OverridePolicy", override("{cue: 'x: 1'}")))
	p := prover(t, made(), 1)
	if why := p.Prove(t.Context(), object); why == "" {
		t.Error("the key is not known, and cannot be read")
	}
	refreshed := 0
	p.Refresh = func(context.Context) error {
		refreshed++
		if refreshed == 1 {
			return errors.New("not now")
		}
		p.Use(proof.State{Sign: key(t, 1), Valid: []keyring.Key{key(t, 2), key(t, 1)}, Record: made()})
		return nil
	}
	before := p.Version()
	if why := p.Prove(t.Context(), object); why == "" || p.Version() != before {
		t.Error("the key is not known, and cannot be read now")
	}
	if why := p.Prove(t.Context(), object); why != "" || p.Version() == before {
		t.Errorf("after reading the keys: %s", why)
	}
	if why := p.Prove(t.Context(), object); why != "" || refreshed != 2 {
		t.Errorf("the keys were read %d times: %s", refreshed, why)
	}
}

func TestWithoutKeysNothingIsProven(t *testing.T) {
	t.Parallel()
	object := policy(t, "AuthorizationPolicy", "{"+allow+"}")
	p := &proof.Prover{}
	if text, err := p.Make(object); err == nil {
		t.Errorf("made %s", text)
	}
	p.Use(proof.State{})
	if text, err := p.Make(object); err == nil {
		t.Errorf("made %s by a key that is none", text)
	}
	if got := new(proof.Prover).Check(object); got.State != api.Unproven {
		t.Errorf("%+v", got)
	}
}

func TestPoliciesFromBeforeProofs(t *testing.T) {
	t.Parallel()
	at := func(name string, uid types.UID, generation int64) api.Object {
		object := policy(t, "AuthorizationPolicy", "{"+allow+"}")
		object.SetName(name)
		object.SetUID(uid)
		object.SetGeneration(generation)
		return object
	}
	foreign := at("foreign", "f", 1)
	foreign.SetAnnotations(map[string]string{proof.Annotation: "v1.0123456789abcdef.AAAA"})
	existing := []api.Object{at("a", "a", 3), foreign}
	record := proof.RecordOf(existing, time.Now())
	if p := prover(t, proof.Record{}, 1); p.Check(at("a", "a", 3)).State != api.Recorded || p.Check(foreign).State != api.Unproven {
		t.Error("until the record is made, what carries no proof stays in force, and nothing else")
	}
	text, err := record.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if record, err = proof.DecodeRecord(text); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		reason string
		object api.Object
		want   api.ProofState
	}{
		{"as it was", at("a", "a", 3), api.Recorded},
		{"a later generation", at("a", "a", 4), api.Unproven},
		{"another policy of its name", at("a", "b", 3), api.Unproven},
		{"no UID", at("a", "", 0), api.Unproven},
		{"it carries a proof by an unknown key", foreign, api.Unproven},
	} {
		if got := prover(t, record, 1).Check(row.object); got.State != row.want {
			t.Errorf("%s: %+v, want %s", row.reason, got, row.want)
		}
	}
	for _, kind := range []string{"ClusterPolicyExemption", "PolicyExemption", "ObjectPolicy"} {
		young := kindOf(t, kind).New()
		young.SetName("a")
		young.SetUID("x")
		young.SetGeneration(1)
		for reason, record := range map[string]proof.Record{"not made yet": {}, "made": proof.RecordOf([]api.Object{young}, time.Now())} {
			if got := prover(t, record, 1).Check(young); got.State != api.Unproven {
				t.Errorf("%s is older than proofs, with a record that is %s: %+v", kind, reason, got)
			}
		}
	}
	lost := proof.RecordLost(time.Now())
	if got := prover(t, lost, 1).Check(at("a", "a", 3)); got.State != api.Unproven {
		t.Errorf("after the key was lost: %+v", got)
	}
}

func TestRecordsAreBounded(t *testing.T) {
	t.Parallel()
	began := time.Now()
	policies := make([]api.Object, proof.MostRecorded+3)
	for i := range policies {
		object := kindOf(t, "OverridePolicy").New()
		object.SetUID(types.UID(fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", i*2654435761%(1<<32), i*40503%(1<<16), i*977%(1<<12), i*7919%(1<<16), i*11400714819323%(1<<48))))
		object.SetGeneration(int64(i % 7))
		object.SetCreationTimestamp(metav1.NewTime(began.Add(-time.Duration(i) * time.Second)))
		policies[i] = object
	}
	record := proof.RecordOf(policies, began)
	text, err := record.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if len(record.Policies) != proof.MostRecorded || record.LeftOut != 3 || len(text) > 700_000 {
		t.Errorf("%d policies are recorded in %d bytes, %d are not", len(record.Policies), len(text), record.LeftOut)
	}
	if _, ok := record.Policies[policies[0].GetUID()]; ok {
		t.Error("the youngest policy is recorded")
	}
	for _, text := range []string{"x", text[:100], "{}"} {
		if _, err := proof.DecodeRecord(text); err == nil {
			t.Errorf("%.20q was decoded", text)
		}
	}
}
