package account

// Permissions are what the App needs, by name, with the level. app.yml asks
// for the same, and says for each why; a test compares them.
var Permissions = map[string]string{
	"actions": "write", "administration": "read", "checks": "write", "contents": "write", "issues": "write",
	"members": "read", "metadata": "read", "pull_requests": "write", "statuses": "read", "workflows": "write",
}

// Events are the webhook events that the App subscribes to. installation and
// installation_repositories come by themselves.
var Events = []string{
	"branch_protection_rule", "check_run", "check_suite", "issue_comment", "member", "pull_request", "pull_request_review",
	"pull_request_review_thread", "push", "repository", "repository_ruleset", "status", "workflow_run",
}

// Grants reports whether a level of a permission includes another.
func Grants(have, need string) bool {
	return have == need || have == "admin" || have == "write" && need == "read"
}

// App is a GitHub App with its secrets, as the host gives them once when it is
// made from a manifest. They are never logged.
type App struct {
	ID            int64
	Slug          string
	PEM           string
	WebhookSecret string
	ClientID      string
	ClientSecret  string
}
