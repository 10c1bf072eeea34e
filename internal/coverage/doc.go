// Package coverage holds the test that asserts that every rule and case of
// docs/rules.md and docs/member-rules.md has a test that bears its ID, and those of
// the former the conformance scenario, too, if a client could see it broken.
//
// A test bears an ID if a string literal in it (mostly the name of a subtest or
// a row of a table), its own name or a comment in it says so:
//
//	t.Run("J-01 unknown group", …)      // cases, deviations, quirks
//	t.Run("rule 7-13 the bump", …)      // rules that begin with a digit: "rule", "rules"
//	func TestL05SessionExpires(…)
//	// rules 4-1, 4-2
//
// Scenarios bear the IDs that stand in the IDs field.
//
//	go test ./internal/coverage -run Listing -v
//
// prints ID, tests and scenarios.
package coverage
