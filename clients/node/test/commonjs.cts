// a module of a CommonJS project
import { OracledClient } from "oracled-client";

export const client = new OracledClient({ transport: () => ({ body: { rules: [] } }) });
