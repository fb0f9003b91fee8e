import { OracledClient } from "oracled-client";

/** The client of this process, which reuses its connections. */
export const oracled = new OracledClient();

/** A session id of oracled; other paths are not pages of this application. */
export const SESSION_ID = /^(?!\.{1,2}$)[A-Za-z0-9_.:-]{1,255}$/;
