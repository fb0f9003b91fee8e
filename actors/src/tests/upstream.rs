mod oracle_health;
