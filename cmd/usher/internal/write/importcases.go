package write

import (
	"bytes"
	"context"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/proof"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/printable"
)

// casesFolder has the cases of policies.
const casesFolder = "cases/"

// wholeCases makes the cases of policies ones about all that a policy became, as it is written: tests are about one
// rule or constraint. It returns how many are no cases, since they were not shown to hold then: another rule may decide.
func wholeCases(ctx context.Context, imports []convert.Import, own [][]*proof.Row) (noCases int, err error) {
	for i := range imports {
		documents, err := convert.Documents(imports[i].To)
		if err != nil {
			return 0, err
		}
		for _, row := range own[i] {
			judged, ok := row.Case.(*policytest.Case)
			if !ok || len(documents) == 0 {
				continue
			}
			if ctx.Err() != nil {
				row.Case = nil
				noCases++
				continue
			}
			whole, expect := *judged, *judged.Expect
			expect.NoMatch = false
			whole.Policies, whole.Expect = documents, &expect
			if whole.Phase == usher.Validate {
				// Whatever follows from it: policies warn until somebody has them deny.
				whole.ValidationActions = []string{"Deny"}
			}
			c, report := whole.RunStrictly(ctx)
			row.Case = c
			if row.Outcome == proof.Holds && report.Status != policytest.Passed {
				row.Case = nil
				noCases++
			}
		}
	}
	return noCases, nil
}

// casesIn returns a file with cases, whose policies are in other files.
func casesIn(policyFiles []string, rows []*proof.Row) ([]byte, error) {
	var cases bytes.Buffer
	for _, row := range rows {
		whole, ok := row.Case.(*policytest.Case)
		if !ok {
			continue
		}
		named := *whole
		named.Policies, named.PolicyFiles = nil, policyFiles
		content, err := printable.YAML(named)
		if err != nil {
			return nil, err
		}
		cases.WriteString("---\n")
		cases.Write(content)
	}
	return cases.Bytes(), nil
}
