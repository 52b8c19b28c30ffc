package main

import (
	"encoding/json"
	"os"
)

// A subject is something that was built, and its SHA-256 digest in hexadecimal.
type subject struct{ name, digest string }

// provenance writes an in-toto statement (v1) with the predicate of SLSA provenance (v1). It says what was built from
// which commit. As long as nobody signs it, it proves nothing: a maintainer does, with cosign attest-blob.
func (r *release) provenance(file string, subjects []subject) error {
	type object = map[string]any
	var about []object
	for _, s := range subjects {
		about = append(about, object{"name": s.name, "digest": object{"sha256": s.digest}})
	}
	const repository = "https://github.com/usher-dev/usher"
	statement := object{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       about,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": object{
			"buildDefinition": object{
				"buildType":          repository + "/blob/main/.goreleaser.yaml",
				"externalParameters": object{"repository": repository, "version": r.Version},
				"resolvedDependencies": []object{{
					"uri": "git+" + repository, "digest": object{"gitCommit": r.Commit},
				}},
			},
			// A maintainer builds on a machine of theirs.
			"runDetails": object{"builder": object{"id": repository + "/blob/main/CONTRIBUTING.md#releases"}},
		},
	}
	text, err := json.MarshalIndent(statement, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
