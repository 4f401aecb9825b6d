package rest

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a body may look like, oddity by oddity: sent to updateQueue with the
// repository in front, so that the only thing wrong is the oddity.
func TestOddJSONIsReadExactlyOrRefusedWithItsPath(t *testing.T) {
	t.Parallel()
	const fine = ""
	for _, c := range []struct {
		name string
		body string // after {"repo":…,"targetBranch":"main"
		want string // message of the 400, or fine
	}{
		// Numbers, by their value.
		{"an integer with a fraction of zero", `,"concurrency":7.0}`, fine},
		{"an integer with an exponent", `,"concurrency":7e0}`, fine},
		{"an integer with a negative exponent", `,"concurrency":70e-1}`, fine},
		{"an integer with a fraction that its exponent takes away", `,"concurrency":0.7E+1}`, fine},
		{"zeros without end", `,"concurrency":7` + "." + strings.Repeat("0", 1000) + `}`, fine},
		{"an exponent without end", `,"concurrency":7e999999999999999999999}`, "concurrency must be an integer from 1 to 4294967295."},
		{"a negative exponent without end", `,"concurrency":7e-999999999999999999999}`, "concurrency must be an integer from 1 to 4294967295."},
		{"a fraction", `,"concurrency":7.5}`, "concurrency must be an integer from 1 to 4294967295."},
		{"a fraction that a float would lose", `,"concurrency":7.00000000000000000000001}`, "concurrency must be an integer from 1 to 4294967295."},
		{"minus zero where zero is allowed", `,"notReadyTimeoutHours":-0,"concurrency":7}`, fine},
		{"minus zero where it is not", `,"concurrency":-0}`, "concurrency must be an integer from 1 to 4294967295."},
		{"zero with an exponent", `,"notReadyTimeoutHours":0e99,"concurrency":7}`, fine},
		{"2^32-1", `,"testingTimeoutMinutes":4294967295,"concurrency":7}`, fine},
		{"2^32", `,"concurrency":4294967296}`, "concurrency must be an integer from 1 to 4294967295."},
		{"2^64+7", `,"concurrency":18446744073709551623}`, "concurrency must be an integer from 1 to 4294967295."},
		{"a number in a string", `,"concurrency":"7"}`, "concurrency must be an integer from 1 to 4294967295."},
		{"a number with a plus", `,"concurrency":+7}`, "The body is not JSON: invalid character '+' looking for beginning of value, at byte 95."},
		{"a number with a leading zero", `,"concurrency":07}`, "The body is not JSON: invalid character '7' after object key:value pair, at byte 96."},
		{"not a number", `,"concurrency":NaN}`, "The body is not JSON: invalid character 'N' looking for beginning of value, at byte 95."},

		// Names.
		{"a field twice", `,"concurrency":7,"concurrency":7}`, "concurrency is given twice."},
		{"a field twice, once as null", `,"concurrency":null,"concurrency":7}`, "concurrency is given twice."},
		{"a field twice, once with an escape in its name", `,"concurrency":7,"c\u006fncurrency":8}`, "concurrency is given twice."},
		{"an unknown field twice", `,"x":1,"x":{},"concurrency":7}`, fine},
		{"a name in another case is another name", `,"Concurrency":"no","concurrency":7}`, fine},
		{"a name with an escape", `,"c\u006fncurrency":7}`, fine},
		{"an empty name", `,"":1,"concurrency":7}`, fine},

		// Text.
		{"an escaped NUL", `,"enqueueingLabel":"a\u0000b"}`, "enqueueingLabel holds a NUL character."},
		{"a backslash before u0000", `,"enqueueingLabel":"a\\u0000b","concurrency":7}`, fine},
		{"a raw NUL", ",\"enqueueingLabel\":\"a\x00b\"}", `The body is not JSON: invalid character '\x00' in string literal, at byte 101.`},
		{"a NUL in a list", `,"requiredStatuses":["a","\u0000"]}`, "requiredStatuses[1] holds a NUL character."},
		{"a NUL deep in an unknown field", `,"x":{"y":[1,{"z":"\u0000"}]}}`, "x.y[1].z holds a NUL character."},
		{"a NUL in a name", `,"x":{"a\u0000":1}}`, "x has a field whose name holds a NUL character."},
		{"a NUL in a name at the top", `,"a\u0000":1}`, "The body has a field whose name holds a NUL character."},
		{"invalid UTF-8", ",\"enqueueingLabel\":\"a\xff\"}", "enqueueingLabel is not valid UTF-8."},
		{"an overlong NUL", ",\"enqueueingLabel\":\"\xc0\x80\"}", "enqueueingLabel is not valid UTF-8."},
		{"invalid UTF-8 in an unknown field", ",\"x\":\"\xed\xa0\x80\"}", "x is not valid UTF-8."},
		{"half a surrogate pair", `,"enqueueingLabel":"\ud83d"}`, "enqueueingLabel holds half a surrogate pair, which is no character."},
		{"a surrogate pair the wrong way round", `,"enqueueingLabel":"\ude00\ud83d"}`, "enqueueingLabel holds half a surrogate pair, which is no character."},
		{"a surrogate pair", `,"enqueueingLabel":"\ud83d\ude00","concurrency":7}`, fine},
		{"a pair, then half of one", `,"enqueueingLabel":"\ud83d\ude00\ud83d "}`, "enqueueingLabel holds half a surrogate pair, which is no character."},

		// Shape.
		{"nesting as deep as may be", `,"x":` + strings.Repeat("[", 99) + strings.Repeat("]", 99) + `,"concurrency":7}`, fine},
		{"nesting one deeper", `,"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
			"x" + strings.Repeat("[0]", 99) + " nests deeper than 100 levels."},
		{"nesting without end", `,"x":` + strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20) + `}`, "The body is not JSON: invalid character '[' exceeded max depth, at byte 10084."},
		{"nesting that is never closed", `,"x":` + strings.Repeat(`{"a":`, 1<<20), "The body is not JSON: invalid character '{' exceeded max depth, at byte 50080."},
		{"white space everywhere", " ,\n\t\"concurrency\" :\r\n 7 } \n", fine},
		{"white space that is none of JSON's", ",\"concurrency\":\u00a07}", "The body is not JSON: invalid character 'Â' looking for beginning of value, at byte 95."},
		{"trailing data", `,"concurrency":7}7`, "The body is not JSON: invalid character '7' after top-level value, at byte 97."},
		{"two bodies", `,"concurrency":7}{"concurrency":8}`, "The body is not JSON: invalid character '{' after top-level value, at byte 97."},
		{"a comma too many", `,"concurrency":7,}`, "The body is not JSON: invalid character '}' looking for beginning of object key string, at byte 97."},
		{"a comment", `,"concurrency":7/**/}`, "The body is not JSON: invalid character '/' after object key:value pair, at byte 96."},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			if code, _, message := w.post("/v1/createQueue", "admin", `{@main}`); code != 200 {
				t.Fatal(message)
			}
			code, _, message := w.post("/v1/updateQueue", "admin", "{@main"+c.body)
			if c.want != fine {
				if code != 400 || message != c.want {
					t.Errorf("got %d %q, want 400 %q", code, message, c.want)
				}
				return
			}
			if code != 200 {
				t.Fatalf("got %d %q", code, message)
			}
			if got := w.memory.queues[0].Queue.Concurrency; got != 7 {
				t.Errorf("concurrency %d, want 7", got)
			}
		})
	}
}

// What is accepted is what encoding/json would have read, member by member.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":1,"b":[1,2,{"c":null}],"d":{"e":"f\u00e9\ud83d\ude00\\"}}`, ` { "a" : [ ] , "b" : { } } `,
		`{"a":"\"]},{"}`, `{"a":"\u0000"}`, `{"a":"\ud800"}`, "{\"\xff\":1}", `[[[[`, `{"a":-1.5e+3}`, `{"a":tru}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		root, err := parse(body)
		if !json.Valid(body) {
			if err == nil {
				t.Fatalf("accepted what is not JSON: %q", body)
			}
			return
		}
		if err != nil {
			return
		}
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.UseNumber()
		var want any
		if err := decoder.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, rebuild(root)); diff != "" {
			t.Errorf("%q: %s", body, diff)
		}
	})
}

// rebuild reads everything that a value holds.
func rebuild(v value) any {
	switch v.kind() {
	case "an object":
		out := map[string]any{}
		for name, member := range v.members() {
			out[name] = rebuild(member)
		}
		return out
	case "an array":
		out := []any{}
		for _, item := range v.items() {
			out = append(out, rebuild(item))
		}
		return out
	case "a string":
		return v.text()
	case "a boolean":
		return v.raw[0] == 't'
	case "null":
		return nil
	default:
		return json.Number(v.raw)
	}
}

// Integers are those of exact arithmetic.
func FuzzWhole(f *testing.F) {
	for _, seed := range []string{"0", "-0", "1", "1.0", "1e3", "10e-1", "1.5", "0.001e3", "4294967296", "999999999999999999", "1000000000000000000", "-12.5e1", "0e5", "0.0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, literal string) {
		if !json.Valid([]byte(literal)) || !strings.ContainsRune("-0123456789", rune(literal[0])) {
			return
		}
		n, ok := whole([]byte(literal))
		if _, exponent, found := strings.Cut(strings.ToLower(literal), "e"); found && len(exponent) > 4 {
			return // exact arithmetic would take all memory, which is why ours does not do it
		}
		exact, parsed := new(big.Rat).SetString(literal)
		if !parsed {
			t.Skip()
		}
		limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(18), nil)
		want := exact.IsInt() && new(big.Int).Abs(exact.Num()).Cmp(limit) < 0
		if ok != want || ok && exact.Num().Cmp(big.NewInt(n)) != 0 {
			t.Errorf("%s: got %d %v, want %s %v", literal, n, ok, exact, want)
		}
	})
}
