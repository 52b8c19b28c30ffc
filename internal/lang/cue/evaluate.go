package cue

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cue/internal/number"
	"github.com/usher-dev/usher/internal/rule"

	"cuelang.org/go/cue"
)

// errNoOutput has the text of the original's error.
var errNoOutput = errors.New("output not found in cue")

func validate(value cue.Value, options ...cue.Option) error {
	if err := value.Validate(options...); err != nil {
		return &evalError{err}
	}
	return nil
}

// outcome reads the result out of an evaluated program.
func (n *native) outcome(value cue.Value) (rule.Outcome, error) {
	result := value.LookupPath(cue.MakePath(cue.Str(n.form.output())))
	if !result.Exists() {
		return rule.Outcome{}, errNoOutput
	}
	if n.form == Override || n.form == RenderedOverride {
		patch, err := patchOf(result)
		return rule.Outcome{Patch: patch}, err
	}
	return verdictIn(result)
}

// patchOf reads the patches. What fields hold that it does not know, complete or not, does not
// count, as with the original.
func patchOf(result cue.Value) (usher.Patch, error) {
	var elements []struct {
		Op    cue.Value `json:"op"`
		Path  cue.Value `json:"path"`
		From  cue.Value `json:"from"`
		Value cue.Value `json:"value"`
	}
	if err := decode(result, &elements); err != nil {
		return nil, err
	}
	patch := make(usher.Patch, 0, len(elements))
	for _, e := range elements {
		var op usher.PatchOp
		if err := scalarIn(e.Op, &op.Op); err != nil {
			return nil, err
		}
		if err := scalarIn(e.Path, &op.Path); err != nil {
			return nil, err
		}
		var err error
		switch op.Op {
		case "add", "remove", "replace", "test":
			op.Value, err = treeIn(e.Value)
		case "copy", "move":
			err = scalarIn(e.From, &op.From)
			if err == nil && op.From == "" {
				err = fmt.Errorf("patch of %q: %s has no from", op.Path, op.Op)
			}
		default:
			err = fmt.Errorf("patch of %q: Unexpected kind: %q", op.Path, op.Op)
		}
		if err != nil {
			return nil, err
		}
		patch = append(patch, op)
	}
	if len(patch) == 0 {
		return nil, nil
	}
	return patch, nil
}

// verdictIn reads the result of a validation: absent fields mean valid, no reason and no warnings.
func verdictIn(result cue.Value) (rule.Outcome, error) {
	var fields struct {
		Valid    cue.Value `json:"valid"`
		Reason   cue.Value `json:"reason"`
		Warnings cue.Value `json:"warnings"`
	}
	if err := decode(result, &fields); err != nil {
		return rule.Outcome{}, err
	}
	valid, reason := true, ""
	if err := scalarIn(fields.Valid, &valid); err != nil {
		return rule.Outcome{}, err
	}
	if err := scalarIn(fields.Reason, &reason); err != nil {
		return rule.Outcome{}, err
	}
	var warnings []string
	if err := scalarIn(fields.Warnings, &warnings); err != nil {
		return rule.Outcome{}, err
	}
	if valid {
		return rule.Outcome{Warnings: warnings}, nil
	}
	return rule.Outcome{Verdict: usher.Deny, Message: reason, Warnings: warnings}, nil
}

// decode reads the frame of a result; its fields, as [cue.Value], may be incomplete.
func decode(result cue.Value, into any) error {
	result, _ = result.Default()
	if err := result.Err(); err != nil {
		return &evalError{err}
	}
	if !result.IsConcrete() {
		return validate(result, cue.Concrete(true))
	}
	if err := result.Decode(into); err != nil {
		return &evalError{err}
	}
	return nil
}

// scalarIn reads a string, a bool or strings, and leaves into alone if there is none.
func scalarIn(value cue.Value, into any) error {
	if value == (cue.Value{}) {
		return nil
	}
	if err := validate(value, cue.Concrete(true)); err != nil {
		return err
	}
	if err := value.Decode(into); err != nil {
		return &evalError{err}
	}
	return nil
}

// treeIn reads a JSON tree; the absent value is nil.
func treeIn(value cue.Value) (any, error) {
	if value == (cue.Value{}) {
		return nil, nil
	}
	if err := validate(value, cue.Concrete(true)); err != nil {
		return nil, err
	}
	var decoded any
	if err := value.Decode(&decoded); err != nil {
		return nil, &evalError{err}
	}
	return normal(decoded)
}

// normal returns a decoded value as a JSON tree: numbers as the API server will read
// them, bytes in base64.
func normal(decoded any) (any, error) {
	switch v := decoded.(type) {
	case nil, bool, string, int64:
		return v, nil
	case float64:
		return number.Encode(v)
	case *big.Int:
		if v.IsInt64() {
			return v.Int64(), nil
		}
		f, _ := new(big.Float).SetInt(v).Float64()
		return number.Encode(f)
	case *big.Float:
		f, _ := v.Float64()
		return number.Encode(f)
	case []byte:
		return base64.StdEncoding.EncodeToString(v), nil
	case []any:
		for i := range v {
			var err error
			if v[i], err = normal(v[i]); err != nil {
				return nil, err
			}
		}
		return v, nil
	case map[string]any:
		for name := range v {
			var err error
			if v[name], err = normal(v[name]); err != nil {
				return nil, err
			}
		}
		return v, nil
	}
	return nil, fmt.Errorf("unexpected %T in a result", decoded)
}
