-- The role that the service connects as: it logs in, and owns nothing. What it may do, `platform-auth migrate
-- --grant-to auth_service` says. Safe to run again; each run asks for the password twice, on the terminal or on standard
-- input. psql sends only its SCRAM verifier, so the password is in no statement and in no log of the server.
--   psql --set=ON_ERROR_STOP=1 --file service-role.sql
SELECT 'CREATE ROLE auth_service'
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'auth_service') \gexec
ALTER ROLE auth_service LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
\password auth_service
