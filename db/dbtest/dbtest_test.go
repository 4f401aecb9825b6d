package dbtest_test

import (
	"testing"

	"signalbox/db/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// What one test does to its database no other test sees.
func TestEveryTestHasItsOwnDatabase(t *testing.T) {
	t.Parallel()
	for range 3 {
		t.Run("one", func(t *testing.T) {
			t.Parallel()
			d := dbtest.New(t)
			if err := d.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			org, err := d.CreateOrganization(t.Context(), "acme")
			if err != nil || org.ID != 1 {
				t.Errorf("the first organisation is %+v, %v", org, err)
			}
			if _, err := d.SQL().Exec(`DROP TABLE checks`); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestADatabaseIsGoneAfterItsTest(t *testing.T) {
	t.Parallel()
	var name string
	t.Run("one", func(t *testing.T) {
		if err := dbtest.New(t).SQL().QueryRow(`SELECT current_database()`).Scan(&name); err != nil {
			t.Fatal(err)
		}
	})
	var there bool
	if err := dbtest.New(t).SQL().QueryRow(`SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)`, name).Scan(&there); err != nil || there {
		t.Errorf("database %s is there: %v, %v", name, there, err)
	}
}
