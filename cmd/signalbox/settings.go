package main

// settings are all settings of the server, as text: every field is a flag, an
// environment variable and a line of help, and docs/settings.md lists them. They stay
// text until [settings.check] reads them, so that all mistakes are reported
// together and not one at each start.
type settings struct {
	storage `group:"storage"`
	gitHub  `group:"github"`
	commits `group:"commits"`
	logging `group:"logging"`

	Listen        string `default:":8080" env:"SIGNALBOX_LISTEN" help:"Address to listen on for webhooks, the API and the pages."`
	MetricsListen string `default:"127.0.0.1:9090" env:"SIGNALBOX_METRICS_LISTEN" help:"Address to serve GET /metrics on, without a token; \"off\" for none."`
	BaseURL       string `env:"SIGNALBOX_BASE_URL" help:"Where people reach this server, such as https://signalbox.example.com. Links that are posted on pull requests begin with it. Default: the address that it listens on, which is of use on this machine alone."`

	DashboardAuth   string `default:"github" env:"SIGNALBOX_DASHBOARD_AUTH" help:"Who sees the pages. github: people sign in, see the repositories that they can read, and do what their rights allow. none: everybody who reaches this server sees everything, and who sits at it may change everything."`
	DashboardPublic string `default:"no" env:"SIGNALBOX_DASHBOARD_PUBLIC" help:"yes: dashboard-auth none is meant, although other machines reach the address. Pages show titles, authors, checks and commits to all of them, and can only be read."`

	CommandPrefixes    string `default:"/signalbox" env:"SIGNALBOX_COMMAND_PREFIXES" help:"Words that begin a long command, separated by commas. /merge and /cancel always work."`
	PrivilegedRight    string `default:"admin" env:"SIGNALBOX_PRIVILEGED_RIGHT" help:"Right on the repository that --force and urgent priority take: admin or write."`
	AllowedBots        string `env:"SIGNALBOX_ALLOWED_BOTS" help:"Logins of bots whose commands are obeyed, separated by commas."`
	TicketURL          string `name:"ticket-url" env:"SIGNALBOX_TICKET_URL" help:"Where a ticket is found by its name, which takes the place of {id}, such as https://acme.atlassian.net/browse/{id}: for tickets that are linked to tests by name alone."`
	APIRate            string `name:"api-rate" default:"100" env:"SIGNALBOX_API_RATE" help:"Requests a second that one API token may make; 0 for no limit."`
	APIBurst           string `name:"api-burst" default:"200" env:"SIGNALBOX_API_BURST" help:"Requests that one API token may make at once."`
	SubscriberNetworks string `env:"SIGNALBOX_SUBSCRIBER_NETWORKS" help:"Networks that webhooks may be sent to although they are not public, separated by commas, such as 10.1.2.0/24. Default: none."`
	Deciders           string `default:"2" env:"SIGNALBOX_DECIDERS" help:"How many queues are decided on at once."`
}

// storage says where everything is kept.
type storage struct {
	DatabaseURL     string `env:"SIGNALBOX_DATABASE_URL,DATABASE_URL" help:"Postgres 14 or newer, such as postgres://signalbox:secret@db/signalbox. Without it a private Postgres is started under the data directory."`
	DatabaseURLFile string `name:"database-url-file" env:"SIGNALBOX_DATABASE_URL_FILE" help:"File that holds the database URL."`
	DatabaseConns   string `name:"database-connections" default:"20" env:"SIGNALBOX_DATABASE_CONNECTIONS" help:"Connections to Postgres that one copy of the program opens at most. A few more listen and work jobs."`
	DataDir         string `default:"data" env:"SIGNALBOX_DATA_DIR" help:"Directory for Git mirrors, which can be lost, and for the private Postgres, which cannot."`
	SecretKeyFile   string `env:"SIGNALBOX_SECRET_KEY_FILE" help:"File that holds the key that secrets in the database are encrypted with: 64 hexadecimal digits. Every copy of the server needs the same. Default: secret.key in the data directory, which is made when it is first needed."`
}

// gitHub says which Git host to work on, and as which App.
type gitHub struct {
	GitHubURL         string `name:"github-url" default:"https://github.com" env:"SIGNALBOX_GITHUB_URL" help:"Web address of GitHub or of a GitHub Enterprise Server, such as https://github.example.com."`
	GitHubAPIURL      string `name:"github-api-url" env:"SIGNALBOX_GITHUB_API_URL" help:"Address of its REST API. Default: https://api.github.com, https://api.NAME.ghe.com, or /api/v3 on an Enterprise Server."`
	Host              string `env:"SIGNALBOX_HOST" help:"Name of the Git host in repo.host of API requests. Default: the host of the GitHub URL."`
	GitHubLimits      string `name:"github-limits" default:"on" env:"SIGNALBOX_GITHUB_LIMITS" help:"on: keep to GitHub's published rate limits. off: for an Enterprise Server that has none."`
	AppSlug           string `name:"app-slug" default:"signalbox" env:"SIGNALBOX_APP_SLUG" help:"Name of the GitHub App in the address of its page. Its comments and commits are by this name with [bot] after it."`
	AppID             string `name:"app-id" env:"SIGNALBOX_APP_ID" help:"Number of the GitHub App."`
	AppPrivateKey     string `name:"app-private-key" env:"SIGNALBOX_APP_PRIVATE_KEY" help:"Private key of the GitHub App, in PEM form. Better in a file: see the next setting."`
	AppPrivateKeyFile string `name:"app-private-key-file" env:"SIGNALBOX_APP_PRIVATE_KEY_FILE" help:"File that holds the private key."`
	ClientID          string `name:"client-id" env:"SIGNALBOX_CLIENT_ID" help:"Client ID of the GitHub App, with which people sign in to the pages."`
	ClientSecret      string `env:"SIGNALBOX_CLIENT_SECRET" help:"Client secret of the GitHub App."`
	ClientSecretFile  string `name:"client-secret-file" env:"SIGNALBOX_CLIENT_SECRET_FILE" help:"File that holds the client secret."`
	WebhookSecret     string `name:"webhook-secret" env:"SIGNALBOX_WEBHOOK_SECRET" help:"Secret that the GitHub App signs its webhooks with."`
	WebhookSecretFile string `name:"webhook-secret-file" env:"SIGNALBOX_WEBHOOK_SECRET_FILE" help:"File that holds the webhook secret."`
}

// commits says how the commits are made that land.
type commits struct {
	CommitBody     string `default:"none" env:"SIGNALBOX_COMMIT_BODY" help:"What merge and squash commits say under their title. none: only co-authors. description: the pull request's description, without comments and mentions."`
	CommitterName  string `env:"SIGNALBOX_COMMITTER_NAME" help:"Name of the committer. Default: the App's."`
	CommitterEmail string `env:"SIGNALBOX_COMMITTER_EMAIL" help:"E-mail address of the committer. Default: the App's."`
	SigningKeyFile string `name:"signing-key-file" env:"SIGNALBOX_SIGNING_KEY_FILE" help:"OpenSSH private key, Ed25519 or RSA, that signs every commit. An App has no signing key: make a machine user, add the public key to it as a signing key, and name it as committer with the two settings before."`
	MirrorSize     string `default:"20" env:"SIGNALBOX_MIRROR_SIZE" help:"GiB of disk that the local copy of one repository may take."`
}

// logging says what is logged, and how. The log goes to standard error.
type logging struct {
	LogLevel  string `default:"info" env:"SIGNALBOX_LOG_LEVEL" completion:"debug,info,warn,error" help:"debug, info, warn or error."`
	LogFormat string `default:"text" env:"SIGNALBOX_LOG_FORMAT" completion:"text,json" help:"text or json."`
}
