// Package githubsim is a GitHub on one machine: what a merge queue needs of
// it, made of net/http and real git, for tests and the demo.
//
// It answers GitHub's REST API (under / as api.github.com does and under
// /api/v3 as an Enterprise Server does), serves real bare repositories over
// git's smart HTTP, checks App JWTs and installation tokens, works out
// mergeability late, enforces rulesets and classic protection, merges by all
// three methods, marks a pull request merged when a push makes its head
// reachable from its base, and sends signed webhooks. It knows nothing of the
// program it is used to test.
//
//	client ──REST──► route table ──► nouns in memory ──► webhooks ──► App
//	client ──git───► http-backend ─► bare repositories        ▲
//	control API, Go methods ──► people, CI ───────────────────┘
//
// State is in memory and in the bare repositories under Config.DataDir; a
// restart of the simulator begins anew. Delays are real time, timestamps come
// from Config.Now.
//
// # Where it differs from GitHub
//
// Only what the route table lists is there, and of GraphQL what
// schema.graphql says. One App exists,
// and every account that owns a repository has it installed on all of them.
// An installation token is made at once and lives an hour. Repositories are
// private unless they are made public. A push to several refs of which one
// breaks a rule is refused as a whole. Rules other than creation, update,
// deletion, non_fast_forward, required_linear_history, required_signatures
// (any signature will do), merge_queue, pull_request and
// required_status_checks are shown and not enforced. Of CODEOWNERS the
// patterns *, /folder/ and a whole path are understood. A renamed repository is found by its new name and
// its id only. Diffs do not detect renames.
//
// # What keeps it honest
//
// Tests hold each request, each answer and each webhook to what GitHub
// publishes; package githubspec says how a new call or event is added to that.
//
// # The simulated CI
//
// It decides by the tree it tests, so that what passes and what fails can be
// read off the history afterwards: for each of the repository's checks, a tree
// fails when any file under .ci-sim/{check}/ lists (one path a line) only
// paths that exist in the tree; an empty file always fails. So two changes
// that break only together are one file each and a file that names both. It
// runs on pushes to signalbox/** (and on the heads of pull requests with
// ci.pullRequests), once per commit, reports check runs in the name of GitHub
// Actions, takes minSeconds to maxSeconds, and fails a share flakeRate of the
// checks that would pass. Duration and flake follow from the seed, the tree
// and the number of times that the tree was tested.
//
// # The control API
//
// Programs in any language drive the simulator over HTTP on the same address;
// only callers on this machine are answered. Bodies and answers are JSON, an
// unknown field is an error. A repository is named "owner/name". Mistakes get
// 400 (404 for what does not exist, or GitHub's own status where GitHub would
// refuse the deed) with {"error": "a sentence"}.
//
//	POST /_control/repos    {owner, name, creator?, checks, requiredChecks, bypass?, public?, files?,
//	                         ci: {minSeconds, maxSeconds, flakeRate, seed, pullRequests, branches?}}
//	                        → {id, fullName, cloneUrl, headSha, installationId}
//	POST /_control/pulls    {repo, title, body, author, branch?, base?, files: {path: content|null}, fork?, draft?}
//	                        → {number, headSha}
//	POST /_control/push     {repo, branch, files, message, author, force?, from?, delete?} → {sha}
//	POST /_control/comment  {repo, number, author, body} → {id}
//	POST /_control/review   {repo, number, author, state, body}
//	                        state: approved, changes_requested, commented, dismissed
//	POST /_control/converse {repo, number, author, body} → {id}
//	POST /_control/resolve  {repo, number, author, id, reopen?}
//	POST /_control/close    {repo, number, author}
//	POST /_control/merge    {repo, number, author, method} → {sha}
//	POST /_control/edit     {repo, number, author, title?, body?, base?, draft?, state?, addLabels?, removeLabels?}
//	                        or {author, commentId, commentBody}
//	POST /_control/report   {repo, sha, name, conclusion, summary?, status?, app?, author?}
//	POST /_control/workflow-run {repo, number, status?, headSha?, event?, id?} → {id}
//	                        a run of Actions for a pull request; with id, a change of one
//	POST /_control/collaborators {repo, login, permission}
//	POST /_control/rulesets {repo | org, id?, name?, include?, exclude?, rules: [{type, parameters}], bypass?, disabled?} → {id}
//	POST /_control/protection {repo, branch?, checks?, apps?: {check: app id}, strict?, reviews?, codeOwners?, lastPush?,
//	                         conversations?, linear?, locked?, signed?, appMayPush?, remove?}
//	POST /_control/repository {repo, author, name? | owner? | defaultBranch? | delete? | installed?}
//	                        rename, transfer, delete, take out of the installation or put in
//	POST /_control/installation {owner, author, action: install|uninstall|suspend|unsuspend}
//	POST /_control/token    {login} → {token}, with which git and the API can be used as that person
//	POST /_control/webhook  {url, secret}
//	POST /_control/callback {url}, where people who sign in are led back to
//	                        → {clientId, clientSecret}
//	POST /_control/faults   {next: [{method, path, action: fail|failAfter|slow|limit|drop|dropAfter|late, status?, times?,
//	                         delayMs?, retryAfter?}], webhooks: {lose, repeat, delayMs, reorder, seed}, clear?}
//	GET  /_control/log?repo=owner/name&branch=main
//	                        → [{sha, tree, parents, message, author, pr}] along first parents, newest first
//	GET  /_control/deliveries → [{id, guid, event, action, status, statusCode, redelivery, payload}], oldest first
//
// requiredChecks makes an active ruleset on the default branch, from which the
// App is exempt unless bypass is false. A creator becomes administrator of the
// repository. Whoever opens a pull request or pushes through the control API
// gets write access to the repository, except the author of a pull request
// from a fork, who gets nothing. Control pushes and merges are an
// administrator's: no rule stops them. conclusion "pending" of a report leaves
// the check in progress; with status: true it is a commit status instead of a
// check run. See [Fault] and [WebhookFaults] for faults.
package githubsim
